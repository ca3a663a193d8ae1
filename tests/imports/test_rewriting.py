"""Files of a drop that may not be on the disk are written again; what a stranger left in it leads nowhere else."""

import os

import pytest

from adaptd.imports.rewriting import write_again


def test_files_are_new_and_the_same(tmp_path):
    """Other inodes, the same bytes and times; nothing else lies there afterwards."""
    (tmp_path / "sub").mkdir()
    for name in ("a.png", "sub/b.png"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1, 1))
    before = {path: path.stat() for path in tmp_path.rglob("*.png")}
    write_again(tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(before)
    for path, status in before.items():
        assert path.stat().st_ino != status.st_ino
        assert (path.stat().st_mtime, path.read_text()) == (1, str(path.relative_to(tmp_path)))


@pytest.mark.parametrize("planted", ["link", "file"])
def test_no_name_that_is_there_is_written_to(tmp_path, planted):
    """A link with the name of the draft led to the database."""
    drop, database = tmp_path / "drop", tmp_path / "adaptd.db"
    drop.mkdir()
    database.write_text("precious")
    (drop / "a.png").write_text("evil")
    if planted == "link":
        (drop / ".written-again.part").symlink_to(database)
        (drop / "sub").symlink_to(tmp_path)
    else:
        (drop / ".written-again.part").write_text("theirs")
    before = sorted(drop.iterdir())
    write_again(drop)
    assert (database.read_text(), (drop / "a.png").read_text()) == ("precious", "evil")
    assert sorted(drop.iterdir()) == before
    assert planted == "link" or (drop / ".written-again.part").read_text() == "theirs"
