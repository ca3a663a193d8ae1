"""Taking files out of quarantine: back into the inbox, or deleted. Putting them there is the import's business.

First the row says where the file goes, then the file goes, then the row goes. Killed anywhere, the file is in exactly one
place, and the next command finishes what was begun: a row of a drop with an absolute path is on its way out.
"""

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from adaptd.care.view import is_counted, quarantine_places
from adaptd.files import hash_file, move, remove, sync
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
        found[item.id] = _take_out(store, layout, item, _free(inbox / find_folder_name(names[item.domain_id]), item))
    return found


def delete(store: Store, layout: Layout, items: Sequence[Quarantined]) -> None:
    """Delete files and their rows."""
    for item in items:
        _take_out(store, layout, item, DELETED)


def finish_interrupted(store: Store, layout: Layout) -> None:
    """Take out what a killed process began to take out."""
    with store.reading() as tx:
        begun = [item for item in tx.quarantine.list_all() if is_leaving(item)]
    for item in begun:
        _take_out(store, layout, item, Path(item.path or ""))


def _take_out(store: Store, layout: Layout, item: Quarantined, target: Path) -> Path | None:
    place = _find(store, layout, item)
    with store.writing() as tx:
        tx.quarantine.move(item.id, str(target))
    try:
        if place is not None:
            remove(place) if target == DELETED else _move(place, target)
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


def _move(place: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target):
        if _is_copied(place, target):
            place.unlink()
            return
        raise FileExistsError(errno.EEXIST, "something else is there: move it away, and try again", str(target))
    try:
        move(place, target)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise
        _move_across(place, target)


def _move_across(place: Path, target: Path) -> None:
    """To another filesystem. A dot file is no part of a drop until it is whole and renamed."""
    draft = target.with_name(f".{target.name}.part")
    remove(draft)
    if place.is_dir() and not place.is_symlink():
        shutil.copytree(place, draft, symlinks=True)
    else:
        shutil.copy2(place, draft, follow_symlinks=False)
        if not draft.is_symlink():
            sync(draft)
    move(draft, target)
    remove(place)


def _is_copied(place: Path, target: Path) -> bool:
    """Whether both are files with the same bytes: a copy whose original a killed process did not get to remove."""
    if not all(path.is_file() and not path.is_symlink() for path in (place, target)):
        return False
    return hash_file(place) == hash_file(target)


def _remove_empty(folder: Path, top: Path) -> None:
    """Folders that hold nothing any more, up to the quarantine's own."""
    with suppress(OSError):
        while folder != top and folder.is_relative_to(top):
            folder.rmdir()
            folder = folder.parent
