"""Files that survive a power cut: hashing, syncing, moving. Knows nothing of models or versions."""

import errno
import hashlib
import os
import shutil
from pathlib import Path

from adaptd.errors import PublishError


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Bring a file's content, or a folder's list of names, to the disk. A failure is passed on, never tried again."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """A folder that is there after a power cut, with the parents that were missing."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def write_file(path: Path, content: bytes) -> None:
    """Write a file and sync it. Its name is safe only after its folder is synced too."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def move(origin: Path, target: Path) -> None:
    """One rename, on disk when this returns. The target must not be there: whoever calls holds the project's lock."""
    try:
        origin.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise PublishError(
            f"{origin.parent} and {target.parent} are on different filesystems: set [paths] state and models to the same one"
        ) from error
    sync(target.parent)
    sync(origin.parent)


def remove(path: Path) -> None:
    """Delete a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
