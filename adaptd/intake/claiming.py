"""Taking a settled drop out of the inbox, all or nothing. What is in it, and where it goes, is for others to know."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from adaptd.errors import ClaimRefused, DropChanged
from adaptd.files import make_folder, sync
from adaptd.intake.moving import clear_unfinished, move_drop, remove_copied
from adaptd.intake.tree import read_tree
from adaptd.text import printable

_NO_PERMISSION = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class Way(StrEnum):
    """How a drop came to its target. `before`: an earlier claim had brought it there."""

    RENAMED = "renamed"
    COPIED = "copied"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A drop at its target. `left` says what of it stays in the inbox and why; only copying leaves anything."""

    target: Path
    way: Way
    left: tuple[str, ...] = ()


def claim(folder: Path, target: Path, fingerprint: str | None = None) -> Claimed:
    """Move a drop to `target`, which is one drop's for ever.

    Interrupted anywhere, the same call goes on. Until it does, the scan may show again what was copied and not yet removed:
    finish claims first. A folder of the same name that appears in the inbox afterwards is another drop and not touched.

    Args:
        folder: the drop in the inbox.
        target: where it goes; missing parents are made.
        fingerprint: of the tree that was found settled.

    Raises:
        DropChanged: the drop is gone, or not the one of the fingerprint.
        ClaimRefused: the inbox is read-only or the drop is in use.
        OSError: the disk is full or broken; the drop is where it was.
    """
    with _telling(folder, target):
        if os.path.lexists(target):
            return _finish(folder, target, Way.BEFORE)
        _require_drop(folder, fingerprint)
        make_folder(target.parent)
        if _rename(folder, target):
            return _finish(folder, target, Way.RENAMED)
        _require_removable(folder)
        return Claimed(target, Way.COPIED, move_drop(folder, target))


def _rename(folder: Path, target: Path) -> bool:
    """Move it in one step; False where only copying can."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _finish(folder: Path, target: Path, way: Way) -> Claimed:
    remove_copied(folder, target)
    sync(target.parent)
    if folder.parent.is_dir():
        sync(folder.parent)
    return Claimed(target, way)


@contextmanager
def _telling(folder: Path, target: Path) -> Iterator[None]:
    """Tell errors as what they mean for a drop; a full or broken disk is told as it is."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOENT and not os.path.lexists(folder):
            if not os.path.lexists(target):
                clear_unfinished(target)
            raise DropChanged(
                f"{printable(folder)} is not in the inbox any more: drop it again if it should be learned from"
            ) from error
        if error.errno == errno.EBUSY:
            raise ClaimRefused(
                f'{printable(folder)} is in use or a mount point: unmount it, or set intake.mode = "in-place"'
            ) from error
        if error.errno in _NO_PERMISSION:
            raise _no_permission(folder, folder.parent if os.access(target.parent, os.W_OK) else target.parent) from error
        raise


def _require_drop(folder: Path, fingerprint: str | None) -> None:
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        raise DropChanged(f"{printable(folder)} is not a folder any more: the next scan tells what it is")
    if fingerprint is not None and read_tree(folder).fingerprint != fingerprint:
        raise DropChanged(f"{printable(folder)} changed after it had settled: it is taken when it has settled again")


def _require_removable(folder: Path) -> None:
    """A drop that could be copied but not removed would come again and again."""
    for place in (folder.parent, *(Path(root) for root, _, _ in os.walk(folder))):
        if not os.access(place, os.W_OK | os.X_OK):
            raise _no_permission(folder, place)


def _no_permission(folder: Path, place: Path) -> ClaimRefused:
    return ClaimRefused(
        f"{printable(folder)} cannot be moved, {printable(place)} is read-only or not adaptd's to write: "
        'give adaptd the permission, or read drops where they are with intake.mode = "in-place"'
    )
