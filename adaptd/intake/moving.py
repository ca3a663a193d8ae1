"""A drop moved to another filesystem: copied, and removed from the inbox once it is safe there. Copies no bytes itself.

The copy is made as `.claiming-<name>` beside its target, then renamed: the target is complete or absent. `.claimed-<name>.json`
lists what was copied; while it lies there, those files may still be in the inbox too.
"""

import errno
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from adaptd.beneath import REPLACED, Identity, entered, find_status, holding, opened
from adaptd.errors import InboxUnavailable
from adaptd.files import passing, remove, sync, sync_descriptor, write_file
from adaptd.intake.copying import Copied, copy_tree, hash_at
from adaptd.intake.names import READY_MARK
from adaptd.text import printable

_STAYS = REPLACED | {errno.ENOTEMPTY, errno.EEXIST}
"""Why a folder of the inbox is not removed: something came into it, or it is another by now."""


def move_drop(folder: Path, target: Path, identity: Identity | None = None) -> tuple[str, ...]:
    """Copy a drop, then remove it from the inbox; what stays there and why.

    Raises:
        DropChanged: it is another folder than the one that is meant.
        ClaimRefused: nothing of it can be copied, or it could not be removed afterwards.
        OSError: the disk is full or broken; nothing is left of the copy.
    """
    unfinished = _unfinished(target)
    clear_unfinished(target)
    try:
        inbox = folder.parent.stat().st_ino
        copy = copy_tree(folder, unfinished, identity)
        write_file(_manifest(target), json.dumps(asdict(copy) | {"inbox": inbox}).encode("ascii"))
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
    """Remove from the inbox what the target has, as far as that is still there and the same. Nothing to do is fine.

    Raises:
        InboxUnavailable: the inbox is not there, or not the one that the drop was copied from. The list of what was copied stays.
    """
    manifest = _manifest(target)
    if not manifest.exists():
        return
    document = json.loads(manifest.read_text(encoding="ascii"))
    is_removed = False
    with passing(errno.ENOENT, errno.ENOTDIR), opened(folder.parent, follow=True) as inbox:
        is_removed = _remove_from(inbox, folder.name, document)
        sync_descriptor(inbox)
    if not is_removed:
        raise InboxUnavailable(
            f"{printable(folder)} was copied, but its inbox is not there any more, and it is still to be removed from it: mount "
            f"it again; if it is gone for good, delete {manifest}"
        )
    manifest.unlink()
    sync(target.parent)


def _remove_from(inbox: int, name: str, document: dict[str, Any]) -> bool:
    """Whether what was copied is not in this inbox any more; False: it never was, this is another one.

    Which it is, the inode tells: that of a mounted folder differs from that of the folder it is mounted on, and stays the same
    when it is mounted again. Lists of an older adaptd do not have it.
    """
    same, removed = document.get("inbox") == os.fstat(inbox).st_ino, 0
    with passing(*REPLACED), entered(inbox, name) as top:
        removed = _remove_files(top, [Copied(**file) for file in document["files"]], by_inode=same)
        for inside in reversed(document["folders"][1:]) if same or removed else ():
            with passing(*_STAYS), holding(top, inside) as (parent, own):
                os.rmdir(own, dir_fd=parent)
    if not (same or removed or "inbox" not in document):
        return False
    with passing(*_STAYS):
        os.rmdir(name, dir_fd=inbox)
    return True


def _remove_files(top: int, files: Iterable[Copied], *, by_inode: bool) -> int:
    """How many of them were there."""
    removed = 0
    # The mark first: with it gone, files that came late wait until they are complete.
    ordered = sorted(files, key=lambda file: (file.path != READY_MARK, os.path.dirname(file.path)))  # noqa: PTH120
    for inside, of_folder in groupby(ordered, lambda file: os.path.dirname(file.path)):  # noqa: PTH120
        with passing(*REPLACED), entered(top, inside) as folder:
            for file in of_folder:
                name = os.path.basename(file.path)  # noqa: PTH119
                with passing(*REPLACED):
                    if _is_still(folder, name, file, by_inode=by_inode):
                        os.unlink(name, dir_fd=folder)
                        removed += 1
    return removed


def clear_unfinished(target: Path) -> None:
    """Remove what is left of a copy that was not finished; its originals are all in the inbox."""
    remove(_unfinished(target))
    _manifest(target).unlink(missing_ok=True)


def _unfinished(target: Path) -> Path:
    return target.with_name(f".claiming-{target.name}")


def _manifest(target: Path) -> Path:
    return target.with_name(f".claimed-{target.name}.json")


def _is_still(folder: int, name: str, copied: Copied, *, by_inode: bool) -> bool:
    """Whether the file in the inbox is the one that was copied."""
    status = find_status(folder, name)
    if status is None or (status.st_size, status.st_mtime_ns) != (copied.size, copied.mtime_ns):
        return False
    if by_inode and status.st_ino == copied.inode:
        return True
    # FAT and some network filesystems give a file another inode number from time to time: then its bytes decide.
    return stat.S_ISREG(status.st_mode) and hash_at(folder, name) == copied.sha256
