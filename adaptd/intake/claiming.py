"""Taking a settled drop out of the inbox, all or nothing. What is in it, and where it goes, is for others to know."""

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from adaptd.beneath import PATH_BYTES, is_folder, opened, rename
from adaptd.errors import ClaimRefused, DropChanged
from adaptd.files import make_folder, passing, sync, sync_descriptor
from adaptd.intake.moving import clear_unfinished, move_drop, remove_copied
from adaptd.intake.tree import Tree, read_tree
from adaptd.text import printable

LONGEST_PATH = PATH_BYTES - 384
"""With some room for what is put before or behind it, and for a domain's name: in quarantine that stands before it."""
PUT_BACK_TRIES = 100
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
        DropChanged: the drop is gone, not the one of the fingerprint, or became another while it was moved.
        ClaimRefused: the inbox is read-only, the drop is in use, or there is no room for a copy.
        OSError: the disk is full or broken; the drop is where it was.
    """
    tree = claim_by_rename(folder, target, fingerprint)
    return () if tree is None else _claim_by_copy(folder, target, tree)


def begin_claim(folder: Path, target: Path, fingerprint: str) -> Future[tuple[str, ...]]:
    """`claim`, done at once where a rename does it; copying goes on in a thread.

    A thread is enough: what it does it does in the kernel, beside the daemon's turns, and it ends with the process, wherever it
    is. The next start begins the copy again.
    """
    claimed: Future[tuple[str, ...]] = Future()
    with _telling(claimed):
        tree = claim_by_rename(folder, target, fingerprint)
        if tree is None:
            claimed.set_result(())
        else:
            threading.Thread(target=_copy, args=(claimed, folder, target, tree), name="copying", daemon=True).start()
    return claimed


def finish_claim(inbox: Path, origin: str, target: Path) -> bool:
    """Go on with a claim that was cut short: whether the drop is at its target. If not, all of it is in the inbox.

    Args:
        inbox: where the drop was.
        origin: its path there, as `printable` spells it.
        target: where it was to go.
    """
    if not target.is_dir() or target.is_symlink():
        if os.path.lexists(target):  # swapped just before it was renamed, and nobody came to look
            _put_back(Path(origin), target)
        clear_unfinished(target)
        return False
    folders = inbox.iterdir() if inbox.is_dir() else ()
    claim(next((folder for folder in folders if printable(folder) == origin), Path(origin)), target)
    return True


def _copy(claimed: Future[tuple[str, ...]], folder: Path, target: Path, tree: Tree) -> None:
    with _telling(claimed):
        claimed.set_result(_claim_by_copy(folder, target, tree))


@contextmanager
def _telling(claimed: Future[tuple[str, ...]]) -> Iterator[None]:
    """What goes wrong is raised by whoever asks for the result."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001
        claimed.set_exception(problem)


def claim_by_rename(folder: Path, target: Path, fingerprint: str | None) -> Tree | None:
    """The drop is at its target; or what has to be copied, where a rename cannot do it."""
    with _translating_errors(folder, target):
        if not os.path.lexists(target):
            tree = _require_drop(folder, target, fingerprint)
            make_folder(target.parent)
            if _rename(folder, target, tree):
                return None
            if shutil.disk_usage(target.parent).free < tree.size_bytes:
                raise ClaimRefused(f"{printable(folder)} does not fit on the disk of {target.parent}: make room")
            return tree
        sync(target.parent)  # before the originals go: nobody may have come to it
        remove_copied(folder, target)
        if folder.parent.is_dir():
            sync(folder.parent)
        return None


def _claim_by_copy(folder: Path, target: Path, tree: Tree) -> tuple[str, ...]:
    with _translating_errors(folder, target):
        _require_removable(folder)
        return move_drop(folder, target, tree.identity)


def _rename(folder: Path, target: Path, tree: Tree) -> bool:
    """Move it in one step, and look at what came; False where only copying can.

    What its name stands for may have been exchanged since it was looked at. That goes back; and so does the drop where the disk
    cannot promise to keep it: a second sync would tell nothing of the first.
    """
    with opened(folder.parent, follow=True) as inbox, opened(target.parent, follow=True) as ours:
        try:
            os.rename(folder.name, target.name, src_dir_fd=inbox, dst_dir_fd=ours)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
        if not is_folder(ours, target.name, tree.identity):
            _put_back(folder, target)
            raise DropChanged(f"{printable(folder)} became something else while it was taken: the next scan looks at it")
        try:
            sync_descriptor(ours)
            sync_descriptor(inbox)
        except OSError:
            _put_back(folder, target)
            raise
    return True


def _put_back(folder: Path, target: Path) -> None:
    """What came goes back into the inbox, under another name where its own is taken."""
    with opened(folder.parent, follow=True) as inbox, opened(target.parent, follow=True) as ours:
        for number in range(1, PUT_BACK_TRIES):
            with passing(errno.EEXIST):
                rename(ours, target.name, inbox, folder.name if number == 1 else f"{folder.name[:200]}-{number}")
                return


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


def _require_drop(folder: Path, target: Path, fingerprint: str | None) -> Tree:
    try:
        tree = read_tree(folder)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise
        raise DropChanged(f"{printable(folder)} is not a folder any more: the next scan tells what it is") from error
    if fingerprint not in {None, tree.fingerprint}:
        raise DropChanged(f"{printable(folder)} changed after it had settled: it is taken when it has settled again")
    if tree.mount is not None:
        raise ClaimRefused(
            f"{printable(folder / tree.mount)} is a mount point inside a drop: unmount it and copy its files there, "
            'or set intake.mode = "in-place"'
        )
    if len(os.fsencode(target)) + tree.longest + 1 > LONGEST_PATH:
        raise ClaimRefused(
            f"{printable(folder)} has paths too long to be kept below {target.parent}, "
            f"{tree.longest:,} bytes inside the drop: shorten the names of its folders"
        )
    return tree


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
