"""A project of the release before goes on: its settings and its database are upgraded, and its queue is worked off."""

import shutil
from pathlib import Path

import pytest

from tests.process.conftest import QUICK

PROJECT = Path(__file__).parent / "project-0002.tar.xz"
"""Made by adaptd 0.1.0, revision 0002: a source, an adapted domain, a rollback, a promotion, int8 models; one domain waits."""


@pytest.fixture
def old(tmp_path):
    """The old project, unpacked."""
    shutil.unpack_archive(PROJECT, tmp_path)
    return tmp_path / "shop"


def test_an_old_project_is_told_what_to_do_and_goes_on(old, adaptd):
    """Every refusal names the command that helps; then the queued episode is trained by the settings it was queued with."""
    quick = {name: value for name, value in QUICK.items() if "BACKBONE" not in name}

    def does(*words, code=0):
        run = adaptd("--project", old, *words, env=quick)
        assert run.returncode == code, run.stderr
        return run

    refused = does("status", code=5).stderr
    assert "[method] blend: unknown key; it is [method.guarded] mixup or [method.self_training] mixup today" in refused
    assert "[export] quantized_max_drop: unknown key; it is [export] quantized_max_loss today" in refused
    assert "`adaptd config upgrade`" in refused
    before = (old / "adaptd.toml").read_bytes()
    assert "adaptd.toml.before-upgrade" in does("config", "upgrade").stdout
    assert (old / "adaptd.toml.before-upgrade").read_bytes() == before
    assert "nothing to do" in does("config", "upgrade").stdout
    assert "min_agreement = 0.0" in (old / "adaptd.toml").read_text()
    assert "run `adaptd db upgrade`" in does("status", code=1).stderr
    does("db", "upgrade")
    does("fsck", "--deep")
    does("resume")
    does("run", "--drain")
    assert "night" in does("matrix").stdout
    assert "done" in does("explain", "night").stdout
    does("rollback")
    does("fsck", "--deep")
