"""Durable file work: what is synced and in which order, what a filesystem may refuse, and that nobody else does it by hand."""

import ast
import errno
import hashlib
import os
from pathlib import Path

import pytest

from adaptd import files

PACKAGE = Path(files.__file__).parent


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """The names of what is brought to the disk, in order."""
    found: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return found


def fail_with(monkeypatch, number: int) -> list[int]:
    """Let every sync fail; what was tried."""
    tried: list[int] = []

    def fail(descriptor: int) -> None:
        tried.append(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    return tried


def test_a_file_is_there_whole_or_not_at_all(tmp_path, synced):
    """The content is on disk before the name is, and the name before it returns; parents are made."""
    path = tmp_path / "a" / "b.txt"
    files.replace_file(path, b"old")
    files.replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert synced == [tmp_path.name, ".b.txt", "a", ".b.txt", "a"]
    assert [entry.name for entry in path.parent.iterdir()] == ["b.txt"]
    assert files.hash_file(path) == hashlib.sha256(b"new").hexdigest()


def test_a_folder_is_there_whole_or_not_at_all(tmp_path, synced):
    """Its files, then the folder, then its place; what stands there already is never replaced."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    files.publish_folder(tmp_path / "one", tmp_path / "target")
    assert synced == ["x", "one", tmp_path.name]
    with pytest.raises(OSError, match="not empty"):
        files.publish_folder(tmp_path / "two", tmp_path / "target")
    assert (tmp_path / "target" / "x").read_text() == "one"
    assert (tmp_path / "two" / "x").read_text() == "two"


def test_a_folder_whose_sync_failed_is_made_again(tmp_path, synced, monkeypatch):
    """It is not there after the failure, so that the next call does not take it for safe."""
    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output"):
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
        files.make_folder(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    files.make_folder(tmp_path / "new")
    assert synced == [tmp_path.name]


def test_a_move_is_on_disk_at_both_ends(tmp_path, synced):
    """The new place first: a power cut in between may show a file twice, never not at all."""
    files.make_folder(tmp_path / "there")
    (tmp_path / "x").touch()
    synced.clear()
    files.move(tmp_path / "x", tmp_path / "there" / "x")
    assert synced == ["there", tmp_path.name]


def test_links_are_removed_and_not_followed(tmp_path):
    """Files, folders, links, and what is not there."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").touch()
    (tmp_path / "folder" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "folder" / "in" / "link").symlink_to(tmp_path / "kept")
    for name in ("folder", "link", "kept/x", "nothing"):
        files.remove(tmp_path / name)
    assert list(tmp_path.rglob("*")) == [tmp_path / "kept"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_filesystem_that_cannot_sync(tmp_path, monkeypatch, number):
    """It is used as it is."""
    tried = fail_with(monkeypatch, number)
    files.replace_file(tmp_path / "a" / "x", b"content")
    files.publish_folder(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "x").read_bytes() == b"content"
    assert len(tried) == 6


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_is_told_at_once(tmp_path, monkeypatch, number):
    """It is never tried again, and nothing comes to its place."""
    (tmp_path / "building").mkdir()
    (tmp_path / "building" / "x").touch()
    tried = fail_with(monkeypatch, number)
    for work in (
        lambda: files.replace_file(tmp_path / "file", b"content"),
        lambda: files.publish_folder(tmp_path / "building", tmp_path / "target"),
    ):
        tried.clear()
        with pytest.raises(OSError, match=os.strerror(number)):
            work()
        assert len(tried) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"building"}
    with pytest.raises(OSError, match=r"/file'$"):
        files.replace_file(tmp_path / "file", b"content")
    assert not (tmp_path / "target").exists()


def test_nobody_else_syncs_or_hashes_files():
    """os.fsync, and hashing what is in a file, stand in adaptd/files.py alone."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and path != Path(files.__file__):
                text = ast.unparse(node)
                name = ast.unparse(node.func).rpartition(".")[2]
                by_hand = name in {"sha256", "md5", "blake2b"} and "read" in text
                if name in {"fsync", "fdatasync", "file_digest"} or by_hand:
                    found.append(f"{path.relative_to(PACKAGE)}: {text}")
    assert found == []
