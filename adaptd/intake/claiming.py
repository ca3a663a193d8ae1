"""Taking a settled drop out of the inbox, all or nothing. What is in it, and where it goes, is for others to know."""

import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

from adaptd.errors import ClaimRefused, DropChanged
from adaptd.files import make_folder, sync
from adaptd.intake.moving import clear_unfinished, move_drop, remove_copied
from adaptd.intake.tree import read_tree
from adaptd.text import printable

_NO_PERMISSION = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def claim(folder: Path, target: Path, fingerprint: str | None = None) -> tuple[str, ...]:
    """Move a drop to `target`, which is one drop's for ever. What of it stays in the inbox and why: only copying leaves any.

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
    with _translating_errors(folder, target):
        if not os.path.lexists(target):
            _require_drop(folder, fingerprint)
            make_folder(target.parent)
            if not _rename(folder, target):
                _require_removable(folder)
                return move_drop(folder, target)
            with _going_back(folder, target):
                _sync_parents(folder, target)
            return ()
        remove_copied(folder, target)
        _sync_parents(folder, target)
        return ()


def begin_claim(folder: Path, target: Path, fingerprint: str) -> Future[tuple[str, ...]]:
    """`claim`, done at once where a rename does it; copying goes on in a thread.

    The thread ends with the process, wherever it is: the next start begins the copy again.
    """
    claimed: Future[tuple[str, ...]] = Future()
    if _has_to_copy(folder, target):
        threading.Thread(target=_claim, args=(claimed, folder, target, fingerprint), name="copying", daemon=True).start()
    else:
        _claim(claimed, folder, target, fingerprint)
    return claimed


def finish_claim(inbox: Path, origin: str, target: Path) -> bool:
    """Go on with a claim that was cut short: whether the drop is at its target. If not, all of it is in the inbox.

    Args:
        inbox: where the drop was.
        origin: its path there, as `printable` spells it.
        target: where it was to go.
    """
    if not target.is_dir():
        clear_unfinished(target)
        return False
    folders = inbox.glob("*") if inbox.is_dir() else ()
    claim(next((folder for folder in folders if printable(folder) == origin), Path(origin)), target)
    return True


def require_room(folder: Path, target: Path, size_bytes: int) -> None:
    """A drop that has to be copied must fit on the target's disk.

    Raises:
        ClaimRefused: it does not.
    """
    place = _existing(target)
    if _has_to_copy(folder, target) and shutil.disk_usage(place).free < size_bytes:
        raise ClaimRefused(f"{printable(folder)} does not fit on the disk of {place}: make room")


@contextmanager
def _going_back(folder: Path, target: Path) -> Iterator[None]:
    """A rename whose sync fails is undone: the next sync of the same folders may succeed without having written anything.

    The claim that follows renames it again, so that both folders have changed and have to be written.
    """
    try:
        yield
    except OSError:
        if not os.path.lexists(folder):
            with suppress(OSError):
                target.rename(folder)
        raise


def _claim(claimed: Future[tuple[str, ...]], folder: Path, target: Path, fingerprint: str) -> None:
    try:
        claimed.set_result(claim(folder, target, fingerprint))
    except Exception as problem:  # noqa: BLE001 (raised by whoever asks for the result)
        claimed.set_exception(problem)


def _has_to_copy(folder: Path, target: Path) -> bool:
    return folder.parent.stat().st_dev != _existing(target).stat().st_dev


def _sync_parents(folder: Path, target: Path) -> None:
    sync(target.parent)
    if folder.parent.is_dir():
        sync(folder.parent)


def _existing(target: Path) -> Path:
    """The folder that a target's missing parents will be made in."""
    return next(parent for parent in target.parents if parent.is_dir())


def _rename(folder: Path, target: Path) -> bool:
    """Move it in one step; False where only copying can."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


@contextmanager
def _translating_errors(folder: Path, target: Path) -> Iterator[None]:
    """Errors become what they mean for a drop; those of a full or broken disk are passed on."""
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
