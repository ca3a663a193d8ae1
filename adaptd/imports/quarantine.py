"""Moving files that cannot be used out of their drop, into the quarantine folder where a person finds them."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from adaptd.files import sync_trees
from adaptd.project.layout import Layout
from adaptd.records import Quarantined
from adaptd.store import Store
from adaptd.text import printable


def move_to_quarantine(store: Store, layout: Layout) -> None:
    """Move every quarantined file that still lies in its drop; done again after a kill, it goes on where it stopped.

    The row came first: at any moment the file is where the row says, or still in its drop.
    """
    with store.reading() as tx:
        unmoved = tx.quarantine.list_unmoved()
        drops = {item.drop_id: tx.drops.get(item.drop_id) for item in unmoved if item.drop_id is not None}
        names = {drop.domain_id: tx.domains.get(drop.domain_id).name for drop in drops.values()}
    moved: dict[int, str] = {}
    for item in unmoved:
        assert item.drop_id is not None
        drop = drops[item.drop_id]
        target = _move(item, layout.state / drop.path, layout.quarantine(names[drop.domain_id], drop.number))
        moved[item.id] = layout.relative(target)
    if moved:
        sync_trees([layout.state])
        with store.writing() as tx:
            for key, path in moved.items():
                tx.quarantine.move(key, path)


def _move(item: Quarantined, drop: Path, folder: Path) -> Path:
    target = folder / item.name
    origin = find_file(drop, item.name)
    if origin is None:  # moved before, by a process that was killed, or whose sync failed: moved again, it is written again
        target = target if os.path.lexists(target) else folder / str(item.id)
        origin = drop / item.name
        with suppress(OSError):
            target.rename(origin)
            origin.rename(target)
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(target):  # spelled out, two odd names may be the same
            raise FileExistsError(errno.EEXIST, "there is a file already", str(target))
        origin.rename(target)
    except OSError as problem:
        # A name grows when its odd bytes are spelled out, and a file may be where a folder is needed.
        if problem.errno not in {errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY}:
            raise
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / str(item.id)
        origin.rename(target)
    return target


def find_file(drop: Path, name: str) -> Path | None:
    """The file of a drop by the name it has in the store, which spells odd bytes out."""
    plain = drop / name
    if "\x00" not in name and "\\" not in name:
        return plain if os.path.lexists(plain) else None
    for folder, folders, files in os.walk(drop):
        for entry in (*files, *folders):
            path = Path(folder, entry)
            if printable(path.relative_to(drop)) == name:
                return path
    return None
