"""Taking files out of quarantine: back into the inbox, or deleted. Putting them there is the import's business.

First the row says where the file goes, then the file goes, then the row goes. Killed anywhere, the file is in exactly one
place, and the next command finishes what was begun: a row of a drop with an absolute path is on its way out. Others may write
the inbox: below it no step goes through a link, and nothing is written over.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from adaptd.beneath import entered, find_status, holding, is_folder, opened, remove_at, rename
from adaptd.care.view import is_counted, quarantine_places
from adaptd.files import make_folder, remove, sync_descriptor
from adaptd.intake.copying import Left, copy_below, copy_entry, hash_at
from adaptd.intake.names import find_folder_name
from adaptd.project.layout import Layout
from adaptd.records import Quarantined
from adaptd.store import Store

DELETED = Path(os.devnull)
"""Where the row of a file says that it goes if it is to be deleted."""


def find_obstacle(item: Quarantined) -> str | None:
    """Why a file cannot be taken out of quarantine; None where it can."""
    if item.drop_id is None:
        return f"it was imported from a folder of yours and lies there: {item.path}"
    if item.path is None:
        return "it still lies in the drop it came with; the daemon moves it when it imports or starts"
    return None


def is_leaving(item: Quarantined) -> bool:
    """Whether taking it out was begun."""
    return item.drop_id is not None and item.path is not None and Path(item.path).is_absolute()


def give_back(store: Store, layout: Layout, inbox: Path, items: Sequence[Quarantined]) -> dict[int, Path | None]:
    """Give files back to the inbox, never over another; where each is, None where there was none any more."""
    with store.reading() as tx:
        names = {domain.id: domain.name for domain in tx.domains.list_all()}
    found = {}
    for item in items:
        folder = inbox / find_folder_name(names[item.domain_id])
        found[item.id] = _take_out(store, layout, item, _free(folder, item), inbox)
    return found


def delete(store: Store, layout: Layout, items: Sequence[Quarantined]) -> None:
    """Delete files and their rows."""
    for item in items:
        _take_out(store, layout, item, DELETED)


def finish_interrupted(store: Store, layout: Layout, inbox: Path) -> tuple[str, ...]:
    """Take out what a killed process began to take out; what cannot be is told, and in quarantine as it was before."""
    with store.reading() as tx:
        begun = [item for item in tx.quarantine.list_all() if is_leaving(item)]
    troubles = []
    for item in begun:
        try:
            _take_out(store, layout, item, Path(item.path or ""), inbox)
        except OSError as problem:
            troubles.append(f"quarantine {item.id}: {item.name} could not be taken out: {problem}")
    return tuple(troubles)


def _take_out(store: Store, layout: Layout, item: Quarantined, target: Path, inbox: Path | None = None) -> Path | None:
    place = _find(store, layout, item)
    with store.writing() as tx:
        tx.quarantine.move(item.id, str(target))
    try:
        if place is not None:
            remove(place) if target == DELETED else _move(layout, place, inbox or target.parent, target)
    except OSError:
        if place is not None and os.path.lexists(place):
            with store.writing() as tx:
                tx.quarantine.move(item.id, layout.relative(place))
        raise
    with store.writing() as tx:
        tx.quarantine.remove(item.id)
        if item.drop_id is not None and is_counted(item.name):
            tx.drops.take_out(item.drop_id)
    if place is not None:
        _remove_empty(place.parent, layout.quarantined)
    return None if place is None else target


def _find(store: Store, layout: Layout, item: Quarantined) -> Path | None:
    """Where a file lies in quarantine; None where it is not there any more."""
    if not is_leaving(item):
        path = layout.state / (item.path or "")
        return path if os.path.lexists(path) else None
    assert item.drop_id is not None
    with store.reading() as tx:
        places = quarantine_places(layout, tx.domains.get(item.domain_id), tx.drops.get(item.drop_id), item)
        others = {other.path for other in tx.quarantine.list_all(item.domain_id) if other.id != item.id}
    return next((path for path in places if os.path.lexists(path) and layout.relative(path) not in others), None)


def _free(folder: Path, item: Quarantined) -> Path:
    """The file's own place in the domain's folder, under another name where that is taken."""
    path = folder / item.name
    return path if not os.path.lexists(path) else path.with_name(f"{path.stem}-{item.id}{path.suffix}")


def _move(layout: Layout, place: Path, inbox: Path, target: Path) -> None:
    if not target.is_relative_to(inbox):
        raise OSError(errno.EINVAL, "it was on its way to another inbox: restore it again", str(target))
    make_folder(inbox)
    with (
        opened(layout.state, follow=True) as state,
        opened(inbox, follow=True) as top,
        holding(state, layout.relative(place)) as (origin, name),
        holding(top, str(target.relative_to(inbox)), make=True) as (folder, new_name),
    ):
        _bring(origin, name, folder, new_name)
        sync_descriptor(folder)
        sync_descriptor(origin)


def _bring(origin: int, name: str, folder: int, new_name: str) -> None:
    if find_status(folder, new_name) is not None:
        if not _is_copied(origin, name, folder, new_name):
            raise FileExistsError(errno.EEXIST, "something else is there: move it away, and try again", new_name)
        os.unlink(name, dir_fd=origin)
        return
    try:
        rename(origin, name, folder, new_name)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise
        _bring_across(origin, name, folder, new_name)


def _bring_across(origin: int, name: str, folder: int, new_name: str) -> None:
    """To another filesystem. A dot file is no part of a drop until it is whole and renamed."""
    draft = f".adaptd-{hashlib.sha256(os.fsencode(new_name)).hexdigest()[:16]}.part"  # no file of the user is called that
    remove_at(folder, draft)
    if left := _copy(origin, name, folder, draft):
        raise OSError(errno.EIO, "; ".join(left), name)
    rename(folder, draft, folder, new_name)
    sync_descriptor(folder)
    remove_at(origin, name)


def _copy(origin: int, name: str, folder: int, draft: str) -> list[str]:
    """What of a file or folder cannot be copied."""
    if is_folder(origin, name):
        os.mkdir(draft, dir_fd=folder)
        with entered(origin, name) as place, entered(folder, draft) as copy:
            return copy_below(place, copy).left
    try:
        copy_entry(origin, name, name, folder, draft)
    except Left as left:
        return [str(left)]
    return []


def _is_copied(origin: int, name: str, folder: int, new_name: str) -> bool:
    """Whether both are files with the same bytes: a copy whose original a killed process did not get to remove."""
    statuses = os.lstat(name, dir_fd=origin), os.lstat(new_name, dir_fd=folder)
    if not all(stat.S_ISREG(status.st_mode) for status in statuses):
        return False
    return hash_at(origin, name) == hash_at(folder, new_name)


def _remove_empty(folder: Path, top: Path) -> None:
    """Folders that hold nothing any more, up to the quarantine's own."""
    with suppress(OSError):
        while folder != top and folder.is_relative_to(top):
            folder.rmdir()
            folder = folder.parent
