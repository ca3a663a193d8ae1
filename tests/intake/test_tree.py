"""A drop is seen completely, quickly, and the same whenever nothing changed."""

import os
import time

import pytest

from adaptd.intake.tree import read_tree


def test_files_are_counted_and_clutter_is_not(tmp_path, plant):
    """Every file of the drop counts once; marks, clutter and temporary names do not."""
    plant(
        tmp_path, "a.jpg", "b/c.jpg", "b/notes.txt", "_READY", ".DS_Store", "b/._c.jpg", "Thumbs.db", "__MACOSX/x", "b/.gitkeep"
    )
    tree = read_tree(tmp_path)
    assert (tree.files, tree.size_bytes, tree.ready, dict(tree.temporary)) == (3, 5 + 7 + 11, True, {})


@pytest.mark.parametrize(
    "name", ["x.part", "X.TMP", "x.crdownload", "x.partial", "x.filepart", ".x.jpg.Ab3dEf", "~syncthing~x.tmp"]
)
def test_temporary_names_are_told(tmp_path, plant, name):
    """What browsers, rsync, Syncthing and SFTP clients write under until a file is whole, at any depth."""
    plant(tmp_path, f"a/{name}", "b.jpg")
    tree = read_tree(tmp_path)
    assert (list(tree.temporary), tree.files) == ([f"a/{name}"], 1)


def test_all_in_a_temporary_folder_is_temporary(tmp_path, plant):
    """As in rsync's --partial-dir."""
    plant(tmp_path, ".rsync-partial/a.jpg")
    tree = read_tree(tmp_path)
    assert (list(tree.temporary), tree.files, tree.is_empty) == ([".rsync-partial/a.jpg"], 0, False)


def test_a_mark_deeper_down_says_nothing(tmp_path, plant):
    """`_READY` counts at the top of the drop alone."""
    plant(tmp_path, "a/_READY", "a/b.jpg")
    tree = read_tree(tmp_path)
    assert (tree.ready, tree.files) == (False, 1)


def test_links_are_seen_and_not_followed(tmp_path, plant):
    """A link to a folder, even to its own parent, and a FIFO are entries as others are."""
    plant(tmp_path, "drop/a.jpg", "elsewhere/b.jpg")
    (tmp_path / "drop/loop").symlink_to("..")
    os.mkfifo(tmp_path / "drop/pipe")
    assert read_tree(tmp_path / "drop").files == 3


CHANGES = {
    "grows": lambda drop: drop.joinpath("a.jpg").write_bytes(b"longer than before"),
    "touched": lambda drop: os.utime(drop / "a.jpg", ns=(1, 1)),
    "added": lambda drop: drop.joinpath("c.jpg").touch(),
    "removed": lambda drop: drop.joinpath("a.jpg").unlink(),
    "renamed": lambda drop: drop.joinpath("a.jpg").rename(drop / "b.jpg"),
    "empty folder": lambda drop: drop.joinpath("new").mkdir(),
    "file for folder": lambda drop: (drop.joinpath("a.jpg").unlink(), drop.joinpath("a.jpg").mkdir()),
    "odd bytes": lambda drop: open(os.fsencode(drop) + b"/\xff\n\xfe", "wb").close(),  # noqa: SIM115
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_fingerprint_changes_with_the_drop(tmp_path, plant, change):
    """Any change of paths, kinds, sizes and times gives another, and none gives the same."""
    plant(tmp_path, "a.jpg", "b/c.jpg")
    before = read_tree(tmp_path).fingerprint
    assert read_tree(tmp_path).fingerprint == before
    CHANGES[change](tmp_path)
    assert read_tree(tmp_path).fingerprint != before


def test_the_fingerprint_does_not_change_with_clutter(tmp_path, plant):
    """A file manager that leaves its traces, or the mark, does not make it another drop; nor does a copy elsewhere."""
    plant(tmp_path, "a.jpg")
    before = read_tree(tmp_path).fingerprint
    plant(tmp_path, ".DS_Store", "_READY")
    assert read_tree(tmp_path).fingerprint == before


def test_a_folder_that_is_gone_is_an_error(tmp_path):
    """It is not an empty one."""
    with pytest.raises(FileNotFoundError):
        read_tree(tmp_path / "none")


def test_many_files_are_read_in_no_time(tmp_path):
    """50,000 files take well under a second of the processor (bound three times as wide as measured on a slow machine)."""
    for folder in range(50):
        (tmp_path / str(folder)).mkdir()
        for file in range(1000):
            os.close(os.open(f"{tmp_path}/{folder}/{file}.jpg", os.O_CREAT | os.O_WRONLY))
    began = time.process_time()
    assert read_tree(tmp_path).files == 50_000
    assert time.process_time() - began < 1.5
