"""Durable file work: what is written, renamed or made here is still there after a power cut. Knows nothing of what it keeps.

A failed sync is passed on and never tried again: the kernel may have thrown the pages away.
"""

import contextlib
import ctypes
import errno
import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)

NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""How a filesystem says that it cannot sync folders; some network filesystems do."""


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hash_open(file)


def hash_open(file: IO[bytes]) -> str:
    """SHA-256 of what an open file has from here on."""
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # any file that is read as bytes does


def sync(path: Path) -> None:
    """Bring a file's content, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """The same for a folder and the files in it."""
    for path in sorted(folder.iterdir()):
        sync(path)
    sync(folder)


def sync_descriptor(descriptor: int) -> None:
    """As `sync`, for an open file or folder."""
    with passing(*NO_SYNC):
        os.fsync(descriptor)


def sync_trees(folders: Iterable[Path]) -> None:
    """Bring whole folders to the disk, whoever wrote what is in them: everything on their filesystems at once, by syncfs(2).

    Where the system cannot do that, every file and folder below them, one by one.
    """
    synced: set[int] = set()
    for folder in folders:
        device = os.lstat(folder).st_dev
        if device in synced or _sync_filesystem(folder):
            synced.add(device)
        else:
            _sync_tree(folder)


def _sync_filesystem(folder: Path) -> bool:
    """Whether the system can bring a whole filesystem to the disk, and did."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if syncfs(descriptor) == 0:
            return True
        number = ctypes.get_errno()
    finally:
        os.close(descriptor)
    if number in NO_SYNC | {errno.ENOSYS}:
        return False
    raise OSError(number, os.strerror(number), str(folder))


def _sync_tree(folder: Path) -> None:
    for place, _, names in os.walk(folder, topdown=False):
        for path in (Path(place, name) for name in names):
            if stat.S_ISREG(os.lstat(path).st_mode):
                sync(path)
        sync(Path(place))


def make_folder(folder: Path) -> None:
    """A folder that is there after a power cut, with the parents that were missing."""
    if not folder.is_dir():
        make_folder(folder.parent)
        is_ours = not folder.exists()
        folder.mkdir(exist_ok=True)
        try:
            sync(folder.parent)
        except OSError:
            with contextlib.suppress(OSError):
                if is_ours:  # to be made again and synced again, not taken for safe
                    folder.rmdir()
            raise


def write_file(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file and sync it. Its name is safe only after its folder is synced too. A mode is set before the first byte."""
    with path.open("wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        sync_descriptor(file.fileno())


def replace_file(path: Path, content: bytes, draft: Path | None = None, mode: int | None = None) -> None:
    """Write a file that is there whole or not at all, in place of the one that may be there.

    Args:
        path: the file; missing parents are made.
        content: its bytes.
        draft: the file's name while it is being written, in the same folder; by default the name with a dot before it.
        mode: of the new file; None: as usual.
    """
    draft = draft or path.with_name(f".{path.name}")
    make_folder(path.parent)
    try:
        write_file(draft, content, mode)
    except OSError as problem:
        problem.filename = problem.filename or str(path)  # a write that finds no room does not say where
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    draft.replace(path)
    sync(path.parent)


def move(origin: Path, target: Path) -> None:
    """One rename, on disk when this returns. The target must not be there; OSError EXDEV where only a copy can do it."""
    origin.rename(target)
    sync(target.parent)
    if origin.parent != target.parent:
        sync(origin.parent)


def publish_folder(building: Path, target: Path) -> None:
    """Bring a folder of files that was built under another name to its place: there whole or not at all.

    Raises:
        OSError: the target is there, and holds something.
    """
    sync_folder(building)
    move(building, target)


def remove(path: Path) -> None:
    """Delete a file or a whole folder, if it is there; links are deleted, never followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def try_to_remove(path: Path) -> bool:
    """The same for leftovers: whether it is gone. What another user owns is told in the log, and stays."""
    try:
        remove(path)
    except OSError as problem:
        log.warning("%s cannot be deleted: %s; give adaptd the permission, or delete it", path, problem.strerror)
        return False
    return True


@contextlib.contextmanager
def passing(*numbers: int) -> Iterator[None]:
    """Let these errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise
