"""Folders in a drop that are named like classes: told, never used, and the command that is offered works."""

import shlex

import pytest

from adaptd.imports.incoming import Incoming
from adaptd.library.folders import Found, Listing


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("a/1.png", "b/deep/2.png"), ("a", "b")),
        (("a/1.png", "b/2.png", "loose.png"), ("a", "b")),
        (("a/1.png", "other/2.png"), ()),
        (("a/1.png",), ()),
        (("1.png", "2.png"), ()),
    ],
)
def test_which_folders_count(tmp_path, names, found):
    """Several, and none of another name: one folder alone may be called anything."""
    listing = Listing(tuple(Found(tmp_path / name, name) for name in names))
    assert Incoming("camera", "", listing, ()).find_class_folders(("a", "b", "c")) == found


def test_the_offered_command_measures(adaptd, project, paint, tmp_path):
    """`adapt` says so and learns without the labels; the command it names turns estimates into measurements."""
    small = {"ADAPTD_MODEL__IMAGE_SIZE": "16", "ADAPTD_TRAINING__THREADS": "1", "ADAPTD_EVALUATION__HELD_OUT": "0.3"}
    at = {"env": small, "cwd": project}
    run = adaptd("source", "import", paint(tmp_path / "photos", 12, seed=0), "--epochs", "8", "--force", **at)
    assert run.returncode == 0, run.stderr
    run = adaptd("adapt", paint(tmp_path / "camera", 12, seed=1, shift=20), "--epochs", "1", **at)
    (told,) = (line for line in run.stderr.splitlines() if "named like classes" in line)
    assert "which is never taken for labels" in told
    command = shlex.split(told.split("`")[1])
    assert command[:4] == ["adaptd", "labels", "import", "camera"]
    measured = adaptd(*command[1:], **at)
    assert measured.returncode == 0, measured.stderr
    assert "to measure" in measured.stdout
