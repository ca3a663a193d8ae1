"""A drop moved to another filesystem: copied, and removed from the inbox once it is safe there. Copies no bytes itself.

The copy is made as `.claiming-<name>` beside its target, then renamed: the target is complete or absent. `.claimed-<name>.json`
lists what was copied; while it lies there, those files may still be in the inbox too.
"""

import errno
import json
import os
import stat
from dataclasses import asdict
from pathlib import Path

from adaptd.files import hash_file, passing, remove, sync, write_file
from adaptd.intake.copying import Copied, copy_tree
from adaptd.intake.names import READY_MARK


def move_drop(folder: Path, target: Path) -> tuple[str, ...]:
    """Copy a drop, then remove it from the inbox; what stays there and why.

    Raises:
        ClaimRefused: nothing of it can be copied, or it could not be removed afterwards.
        OSError: the disk is full or broken; nothing is left of the copy.
    """
    unfinished = _unfinished(target)
    clear_unfinished(target)
    try:
        copy = copy_tree(folder, unfinished)
        write_file(_manifest(target), json.dumps(asdict(copy)).encode("ascii"))
        sync(target.parent)
        unfinished.rename(target)
        sync(target.parent)
    except BaseException:
        # All of it is still in the inbox: a sync that failed is not tried again, the copy is made anew.
        remove(target)
        clear_unfinished(target)
        raise
    remove_copied(folder, target)
    return tuple(copy.left)


def remove_copied(folder: Path, target: Path) -> None:
    """Remove from the inbox what the target has, as far as that is still there and the same. Nothing to do is fine."""
    manifest = _manifest(target)
    # While the inbox is away the list must stay.
    if not manifest.exists() or not folder.parent.is_dir():
        return
    document = json.loads(manifest.read_text(encoding="ascii"))
    files = [Copied(**file) for file in document["files"]]
    # The mark first: with it gone, files that came late wait until they are complete.
    for file in sorted(files, key=lambda file: file.path != READY_MARK):
        if _is_still(folder / file.path, file):
            (folder / file.path).unlink(missing_ok=True)
    for inside in reversed(document["folders"]):
        with passing(errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
            (folder / inside).rmdir()
    sync(folder.parent)
    manifest.unlink()
    sync(target.parent)


def clear_unfinished(target: Path) -> None:
    """Remove what is left of a copy that was not finished; its originals are all in the inbox."""
    remove(_unfinished(target))
    _manifest(target).unlink(missing_ok=True)


def _unfinished(target: Path) -> Path:
    return target.with_name(f".claiming-{target.name}")


def _manifest(target: Path) -> Path:
    return target.with_name(f".claimed-{target.name}.json")


def _is_still(path: Path, copied: Copied) -> bool:
    """Whether the file in the inbox is the one that was copied."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if (status.st_size, status.st_mtime_ns) != (copied.size, copied.mtime_ns):
        return False
    if status.st_ino == copied.inode:
        return True
    # FAT and some network filesystems give a file another inode number from time to time: then its bytes decide.
    return stat.S_ISREG(status.st_mode) and hash_file(path) == copied.sha256
