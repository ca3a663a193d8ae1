"""File work below a folder that is held open: no step follows a link, whoever else may write there. Decides nothing.

Folders are descriptors, and what lies below one is named by its path inside. Another user may rename, replace and remove what is
there at any time; what is opened here is below the folder that was opened first, or OSError: ENOTDIR and ELOOP for a link.
"""

import contextlib
import ctypes
import errno
import functools
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPLACED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""How opening ends where a folder is gone, or something else stands in its place."""
DEPTH, PATH_BYTES = 100, 4096
"""Folders inside each other, and the length of a path: beyond that nothing else could name what is there."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
# O_NONBLOCK returns from a FIFO that nobody writes to; what was opened is then asked for its kind.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_RENAME_NOREPLACE = 1
_NO_SUCH_CALL = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})

Identity = tuple[int, int]
"""Device and inode."""


@contextmanager
def opened(path: Path, *, follow: bool = False) -> Iterator[int]:
    """A folder by its path. `follow` is for paths of the settings: their last step may be a link too."""
    descriptor = os.open(path, _FOLDER & ~os.O_NOFOLLOW if follow else _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def entered(folder: int, inside: str = "", *, make: bool = False) -> Iterator[int]:
    """A folder below another, step by step; `make` makes those that are missing."""
    descriptor = os.dup(folder)
    try:
        for name in _steps(inside):
            if make:
                make_one(descriptor, name)
            deeper = os.open(name, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def holding(folder: int, inside: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that something below another lies in, and its name there."""
    *parents, name = _steps(inside)
    with entered(folder, "/".join(parents), make=make) as parent:
        yield parent, name


def make_one(folder: int, name: str) -> None:
    """A folder directly in another, unless something is there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)


def find_status(folder: int, name: str) -> os.stat_result | None:
    """What a name in a folder stands for, a link for itself; None where there is nothing."""
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def identify(folder: int) -> Identity:
    """Which folder it is, whatever it is called."""
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def is_folder(folder: int, name: str, identity: Identity | None = None) -> bool:
    """Whether a name in a folder stands for a folder, for this one where one is meant."""
    status = find_status(folder, name)
    if status is None or not stat.S_ISDIR(status.st_mode):
        return False
    return identity in {None, (status.st_dev, status.st_ino)}


def open_file(folder: int, name: str) -> int:
    """A descriptor for reading of whatever is no link; it may be no file either."""
    return os.open(name, _FILE, dir_fd=folder)


def open_new(folder: int, name: str) -> int:
    """A descriptor for writing of a file that was not there."""
    return os.open(name, _NEW_FILE, 0o666, dir_fd=folder)


def rename(folder: int, name: str, target: int, new_name: str) -> None:
    """Move within a filesystem, never over something: FileExistsError."""
    call, number = _renameat2(), errno.ENOSYS
    if call is not None:
        if call(folder, os.fsencode(name), target, os.fsencode(new_name), _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
    if number not in _NO_SUCH_CALL:
        raise OSError(number, os.strerror(number), name, None, new_name)
    # Some network filesystems cannot promise it.
    if find_status(target, new_name) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name, None, new_name)
    os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=target)


def remove_at(folder: int, name: str) -> None:
    """Delete a file, a link or a whole folder, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        if is_folder(folder, name):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


@functools.cache
def _renameat2() -> Any:
    """The C library's; None where it has none."""
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def walk(folder: int, leave_out: Callable[[str], bool] | None = None) -> Iterator[tuple[str, os.DirEntry[str] | None]]:
    """Everything below a folder with its path inside; an entry may be asked until the next one comes.

    None stands for a folder that was gone, or not a folder any more, when its turn came; its path ends in a slash.
    """
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            with entered(folder, prefix) as place, os.scandir(place) as entries:
                for entry in entries:
                    if leave_out is not None and leave_out(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{prefix}{entry.name}/")
                    yield prefix + entry.name, entry
        except OSError as error:
            if error.errno not in REPLACED or not prefix:
                raise
            yield prefix, None


def _steps(inside: str) -> list[str]:
    steps = [step for step in inside.split("/") if step not in {"", "."}]
    if inside.startswith("/") or ".." in steps:
        raise OSError(errno.EINVAL, "not a path inside a folder", inside)
    if len(steps) > DEPTH or len(inside) > PATH_BYTES:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), inside[:PATH_BYTES])
    return steps
