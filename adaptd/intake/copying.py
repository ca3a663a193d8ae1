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

from adaptd.beneath import Identity, entered, identify, open_file, open_new, opened
from adaptd.errors import ClaimRefused, DropChanged
from adaptd.files import hash_open, sync_descriptor
from adaptd.text import printable

BLOCK_BYTES = 1 << 20
SYNC_BYTES = 64 << 20
"""So much is written between two syncs: a process that must stop waits for no more than that."""
_LEFT = {
    errno.EACCES: "no permission to read it",
    errno.EPERM: "no permission to read it",
    errno.EIO: "the disk reports an error",
    errno.ELOOP: "it became a link",
    errno.ENOTDIR: "it is not a folder any more",
    errno.ENOENT: "it vanished",
    errno.ENXIO: "it is not a file any more",
    errno.ENAMETOOLONG: "its path is too long",
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


class Left(Exception):
    """One entry stays where it is."""


def copy_tree(folder: Path, copy_to: Path, identity: Identity | None = None) -> Copy:
    """Copy every entry of a drop to a folder that is made for it."""
    copy_to.mkdir()
    with opened(folder) as origin, opened(copy_to) as target:
        if identity not in {None, identify(origin)}:
            raise DropChanged(f"{printable(folder)} is another folder than the one that was looked at: it is looked at again")
        copy = copy_below(origin, target)
    if not copy.files:
        raise ClaimRefused(f"nothing in {printable(folder)} can be copied ({'; '.join(copy.left)}): remove it, or correct it")
    return copy


def copy_below(origin: int, target: int) -> Copy:
    """Copy every entry of a folder into an empty one; none below either is reached through a link."""
    copy, waiting = Copy(), ["."]
    while waiting:
        inside = waiting.pop()
        with contextlib.ExitStack() as stack:
            try:
                with _reading():
                    folder = stack.enter_context(entered(origin, inside))
                    names = sorted(os.listdir(folder))  # noqa: PTH208 (a descriptor)
            except Left as left:
                copy.left.append(f"{printable(Path(inside))}: {left}")
                continue
            place = stack.enter_context(entered(target, inside))
            copy.folders.append(inside)
            waiting += _copy_entries(copy, folder, names, place)
            sync_descriptor(place)
    return copy


def _copy_entries(copy: Copy, folder: int, names: list[str], place: int) -> list[str]:
    """Copy what lies directly in the newest folder of the copy; the folders in it are made, and returned."""
    deeper = []
    for name in names:
        path = os.path.normpath(Path(copy.folders[-1], name))
        try:
            status = _look(folder, name)
            if stat.S_ISDIR(status.st_mode):
                os.mkdir(name, dir_fd=place)
                deeper.append(path)
            else:
                copy.files.append(copy_entry(folder, name, path, place))
        except Left as left:
            copy.left.append(f"{printable(Path(path))}: {left}")
    return deeper


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """Trouble with one file of the inbox, apart from trouble with the copy."""
    try:
        yield
    except OSError as error:
        if error.errno not in _LEFT:
            raise
        raise Left(_LEFT[error.errno]) from error


def _look(folder: int, name: str) -> os.stat_result:
    with _reading():
        return os.lstat(name, dir_fd=folder)


def copy_entry(folder: int, name: str, path: str, place: int, new_name: str | None = None) -> Copied:
    """Copy whatever is no folder from one folder to another, never over something; `path` is what it is called in the answer.

    Raises:
        Left: it cannot be read, or changed meanwhile.
        OSError: the copy cannot be made.
    """
    status, new_name = _look(folder, name), new_name or name
    if stat.S_ISREG(status.st_mode):
        return _copy_file(folder, name, path, place, new_name)
    if stat.S_ISLNK(status.st_mode):
        with _reading():
            link = os.readlink(name, dir_fd=folder)
        os.symlink(link, new_name, dir_fd=place)
    elif stat.S_ISFIFO(status.st_mode):
        os.mkfifo(new_name, dir_fd=place)
    else:
        raise Left("a socket or a device cannot be copied")
    return Copied(path, status.st_size, status.st_mtime_ns, status.st_ino, "")


def _copy_file(folder: int, name: str, path: str, place: int, new_name: str) -> Copied:
    """Copy the bytes of one file, and read the copy back."""
    with _reading():
        file = os.fdopen(open_file(folder, name), "rb", buffering=0)
    with file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise Left("it is not a file any more")
        try:
            digest = _copy_bytes(file, place, new_name, before)
        except Left:
            os.unlink(new_name, dir_fd=place)
            raise
    if hash_at(place, new_name) != digest:
        raise OSError(errno.EIO, "the copy differs from what was written", new_name)
    return Copied(path, before.st_size, before.st_mtime_ns, before.st_ino, digest)


def hash_at(folder: int, name: str) -> str:
    """SHA-256 of a file in a folder; empty for what is no file."""
    with os.fdopen(open_file(folder, name), "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return ""
        return hash_open(file)


def _copy_bytes(file: FileIO, place: int, new_name: str, before: os.stat_result) -> str:
    digest, written = hashlib.sha256(), 0
    with os.fdopen(open_new(place, new_name), "wb") as copy:
        # Somebody may go on writing, for ever: what was not there at the beginning ends the copy.
        while written <= before.st_size:
            with _reading():
                block = file.read(BLOCK_BYTES)
            if not block:
                break
            digest.update(block)
            copy.write(block)
            written += len(block)
            if written % SYNC_BYTES == 0:
                copy.flush()
                sync_descriptor(copy.fileno())
        copy.flush()
        os.utime(copy.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
        sync_descriptor(copy.fileno())
    after = os.fstat(file.fileno())
    if written != before.st_size or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise Left("it changed while it was copied")
    return digest.hexdigest()
