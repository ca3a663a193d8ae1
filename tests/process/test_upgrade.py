"""A project of the release before goes on: its settings are told how to change, its database is upgraded, its queue is worked off."""

import tarfile
from pathlib import Path

import pytest

from adaptd.project.renamed import RENAMED

PROJECT = Path(__file__).parent / "project-0002.tar.xz"
"""Made by adaptd 0.1.0 at revision 0002: a source, one adapted domain, a rollback and a promotion with int8 models, one queued."""


@pytest.fixture
def old(tmp_path):
    """The old project, unpacked."""
    with tarfile.open(PROJECT) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "shop"
