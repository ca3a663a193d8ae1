"""Moving files that cannot be used out of their drop, into the quarantine folder where a person finds them.

Whoever dropped them may still have their folders open: every step is taken below a folder that is held open, through no link.
"""

import errno
import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from adaptd.beneath import find_status, holding, opened, rename, walk
from adaptd.files import make_folder, sync_trees
from adaptd.project.layout import Layout
from adaptd.records import Domain, DropRecord, EventKind, Quarantined
from adaptd.store import Store
from adaptd.text import printable

BATCH = 500
"""Files that are moved between two transactions."""
MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What ends all moving: no file is to blame for it."""
TOLD = 50
"""A domain's newest events: what they say is not said again."""
_BY_NUMBER = frozenset({errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})

log = logging.getLogger(__name__)


def move_to_quarantine(store: Store, layout: Layout) -> tuple[str, ...]:
    """Move every quarantined file that still lies in its drop; done again after a kill, it goes on where it stopped.

    The row came first: at any moment the file is where the row says, or still in its drop. What cannot be moved stays there, is
    told in an event of its domain, and is tried again the next time; the answer has a sentence for each such drop.
    """
    with store.reading() as tx:
        unmoved: dict[int, list[Quarantined]] = {}
        for item in tx.quarantine.list_unmoved():
            assert item.drop_id is not None
            unmoved.setdefault(item.drop_id, []).append(item)
        drops = [tx.drops.get(drop_id) for drop_id in unmoved]
        domains = {drop.domain_id: tx.domains.get(drop.domain_id) for drop in drops}
    troubles = (_move_of_drop(store, layout, drop, domains[drop.domain_id], unmoved[drop.id]) for drop in drops)
    return tuple(trouble for trouble in troubles if trouble is not None)


def _move_of_drop(store: Store, layout: Layout, drop: DropRecord, domain: Domain, items: Sequence[Quarantined]) -> str | None:
    """Move the files of one drop; what is to be told of those that stay."""
    target, stuck = layout.quarantine(domain.name, drop.number), list[str]()
    try:
        make_folder(target)
        with opened(layout.state / drop.path) as origin, opened(target) as place:
            move = _Move(origin, place, items)
            for start in range(0, len(items), BATCH):
                moved, problems = move.take_many(items[start : start + BATCH])
                stuck += problems
                if moved:
                    sync_trees([layout.state / drop.path])  # the folders on both sides, and what is only in memory of the files
                with store.writing() as tx:
                    tx.quarantine.move_many({key: layout.relative(target / path) for key, path in moved.items()})
    except OSError as problem:
        if problem.errno in MACHINE:
            raise
        stuck.append(str(problem))
    return _tell(store, drop, domain, stuck) if stuck else None


def _tell(store: Store, drop: DropRecord, domain: Domain, stuck: Sequence[str]) -> str:
    """An event, unless the domain's events have it already."""
    why = (
        f"{domain.name}: {len(stuck):,} files of drop {drop.number} cannot be moved into quarantine and stay in {drop.path}, "
        f"the first is {stuck[0]}; make its folder writable for adaptd"
    )
    with store.writing() as tx:
        if why not in {event.message for event in tx.events.list_latest(TOLD, domain.id)}:
            tx.events.add(EventKind.DROP_STUCK, why, domain_id=domain.id)
            log.warning(why, extra={"domain": domain.name, "drop": drop.number})
    return why


class _Move:
    """The way of one drop's files into its quarantine folder; both folders are open."""

    def __init__(self, drop: int, target: int, items: Sequence[Quarantined]) -> None:
        self._drop, self._target = drop, target
        self._spelled = _find_spelled(drop, {item.name for item in items if _is_spelled(item.name)})

    def take_many(self, items: Sequence[Quarantined]) -> tuple[dict[int, str], list[str]]:
        """Where each lies now in the quarantine folder; and what is wrong with those that stay."""
        moved, stuck = dict[int, str](), list[str]()
        for item in items:
            try:
                moved[item.id] = self._take(item)
            except OSError as problem:
                if problem.errno in MACHINE:
                    raise
                stuck.append(f"{item.name}: {problem.strerror}")
        return moved, stuck

    def _take(self, item: Quarantined) -> str:
        inside, by_number = self._find(item.name), str(item.id)
        if inside is None:  # moved before, by a process that was killed, or whose sync failed
            return self._move_again(item.name, by_number)
        with holding(self._drop, inside) as (folder, name):
            try:
                with holding(self._target, item.name, make=True) as (place, new_name):
                    rename(folder, name, place, new_name)
            except OSError as problem:
                # A name grows when its odd bytes are spelled out, two may then be the same, and a file may be where a folder is
                # needed.
                if problem.errno not in _BY_NUMBER:
                    raise
                rename(folder, name, self._target, by_number)
                return by_number
        return item.name

    def _move_again(self, name: str, by_number: str) -> str:
        """Where it lies. After a sync that failed the next one may write nothing, unless there is something new to write."""
        if not _is_there(self._target, name):
            return by_number
        with suppress(OSError), holding(self._target, name) as (place, own):
            rename(place, own, self._target, by_number)
            rename(self._target, by_number, place, own)
        return name if _is_there(self._target, name) else by_number

    def _find(self, name: str) -> str | None:
        """The path of a file inside the drop by the name it has in the store, which spells odd bytes out."""
        if _is_spelled(name):
            return self._spelled[name].pop() if self._spelled[name] else None
        return name if _is_there(self._drop, name) else None


def _is_there(folder: int, inside: str) -> bool:
    try:
        with holding(folder, inside) as (parent, name):
            return find_status(parent, name) is not None
    except FileNotFoundError:
        return False


def _is_spelled(name: str) -> bool:
    """Whether a name in the store may have been spelled out: the file has another one then."""
    return "\\" in name or "\0" in name


def _find_spelled(drop: int, names: set[str]) -> dict[str, list[str]]:
    """What lies in a drop by the names it has in the store, for these names: one walk for all of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for inside, entry in walk(drop) if names else ():
        name = printable(Path(inside))
        if entry is not None and name in names:
            found[name].append(inside)
    return found
