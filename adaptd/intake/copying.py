"""Copying a tree of untrusted files with their hashes, durably. Reads no link, FIFO or device; removes no original."""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from adaptd.errors import ClaimRefused
from adaptd.files import hash_file, sync, sync_descriptor
from adaptd.text import printable

BLOCK_BYTES = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_LEFT = {
    errno.EACCES: "no permission to read it",
    errno.EPERM: "no permission to read it",
    errno.EIO: "the disk reports an error",
    errno.ELOOP: "it became a link",
    errno.ENOENT: "it vanished",
    errno.ENXIO: "it is not a file any more",
}
"""What is wrong with one file of the inbox: it stays there. Any other errno ends the copy."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a file in the inbox was when it was copied; `sha256` is empty for what has no bytes."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    sha256: str


@dataclass(slots=True)
class Copy:
    """What came of copying a drop. Folders stand in it parents first; `left` says what stays in the inbox and why."""

    files: list[Copied] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def copy_tree(folder: Path, copy_to: Path) -> Copy:
    """Copy every entry. fwalk holds each folder open: none can be replaced by a link under way."""
    copy = Copy()
    for root, folders, files, descriptor in os.fwalk(folder, onerror=_raise):
        inside = os.path.relpath(root, folder)
        copy.folders.append(inside)
        (copy_to / inside).mkdir()
        links = [name for name in folders if stat.S_ISLNK(os.lstat(name, dir_fd=descriptor).st_mode)]
        for name in (*files, *links):
            path = os.path.normpath(Path(inside, name))
            try:
                copy.files.append(_copy_entry(descriptor, name, path, copy_to / path))
            except _Left as left:
                copy.left.append(f"{printable(Path(path))}: {left}")
    if not copy.files:
        raise ClaimRefused(f"nothing in {printable(folder)} can be copied ({'; '.join(copy.left)}): remove it, or correct it")
    for inside in reversed(copy.folders):
        sync(copy_to / inside)
    return copy


def _raise(error: OSError) -> None:
    raise error


class _Left(Exception):
    """One entry stays in the inbox."""


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """Trouble with one file of the inbox, apart from trouble with the copy."""
    try:
        yield
    except OSError as error:
        if error.errno not in _LEFT:
            raise
        raise _Left(_LEFT[error.errno]) from error


def _copy_entry(folder: int, name: str, path: str, copy_to: Path) -> Copied:
    with _reading():
        status = os.lstat(name, dir_fd=folder)
        link = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(status.st_mode) else None
    if stat.S_ISREG(status.st_mode):
        return _copy_file(folder, name, path, copy_to)
    if link is not None:
        copy_to.symlink_to(link)
    elif stat.S_ISFIFO(status.st_mode):
        os.mkfifo(copy_to)
    else:
        raise _Left("a socket or a device cannot be copied")
    return Copied(path, status.st_size, status.st_mtime_ns, status.st_ino, "")


def _copy_file(folder: int, name: str, path: str, copy_to: Path) -> Copied:
    """Copy the bytes of one file, and read the copy back."""
    with _reading():
        file = os.fdopen(os.open(name, _READ, dir_fd=folder), "rb", buffering=0)
    with file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise _Left("it is not a file any more")
        try:
            digest = _copy_bytes(file, copy_to, before)
        except _Left:
            copy_to.unlink()
            raise
    if hash_file(copy_to) != digest:
        raise OSError(errno.EIO, "the copy differs from what was written", str(copy_to))
    return Copied(path, before.st_size, before.st_mtime_ns, before.st_ino, digest)


def _copy_bytes(file: FileIO, copy_to: Path, before: os.stat_result) -> str:
    digest = hashlib.sha256()
    with copy_to.open("xb") as copy:
        while True:
            with _reading():
                block = file.read(BLOCK_BYTES)
            if not block:
                break
            digest.update(block)
            copy.write(block)
        copy.flush()
        os.utime(copy.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
        sync_descriptor(copy.fileno())
    after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise _Left("it changed while it was copied")
    return digest.hexdigest()
