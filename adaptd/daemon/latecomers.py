"""Files that came after their drop was imported, from writers that held its folder open: they become a drop of their own.

A thread looks for them; the supervisor takes them in, in steps that a kill may come between: the row of the new drop, the moves,
the confirmation. Cut short, what was moved is imported, and the rest is found again.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from adaptd.beneath import holding, opened, rename
from adaptd.care.view import is_counted, is_forgotten, list_kept, quarantine_places
from adaptd.daemon.deliveries import Deliveries, find_place
from adaptd.files import make_folder, remove, sync_trees
from adaptd.imports.claimed import Claimed, fingerprint_taken, has_changed, is_as_claimed, read_claimed, spell
from adaptd.intake.names import is_temporary
from adaptd.intake.tree import read_files
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import DomainState, DropRecord, Image, Quarantined
from adaptd.store import NewDrop, Store

RECENT_SECONDS = 3600.0
"""Drops that came within this time are looked at again and again; all others at a start, and before their domain's episodes."""
STUCK_SECONDS = 300.0
"""Late files that cannot be moved are tried again after this time."""
LOOK_SHARE = 20
"""A look that takes long is followed by this many times as long without one."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Late:
    """What came late for one drop: files in its folder, quarantined files that were still being written, and if all are quiet."""

    drop: DropRecord
    claimed: Claimed
    quarantined: tuple[Quarantined, ...]
    is_settled: bool


class Latecomers:
    """Looks for late files in the claimed drops of a project, and takes them in."""

    def __init__(self, project: Project, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock, self._layout = store, clock, Layout(project.state)
        self._deliveries = Deliveries(store)
        self._looking: Future[list[Late]] | None = None
        self._next_look, self._awaited = -1.0, True
        self._domains: set[str] | None = None  # to look at all drops of; None: of all
        self._told: dict[int, str] = {}
        self._stuck: dict[int, str] = {}
        self._retry_at: dict[int, float] = {}
        self.use(project)

    def use(self, project: Project) -> None:
        """Take over settings."""
        self._settle_seconds = project.settings.intake.settle_seconds
        self._temporary_seconds = project.settings.intake.temporary_seconds

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is known to be on its way."""
        return not self._awaited

    @property
    def warnings(self) -> tuple[str, ...]:
        """Drops that cannot be looked at, and why."""
        return (*self._told.values(), *self._stuck.values())

    def look_soon(self, domain: str) -> None:
        """Look at every drop of a domain in the next turn."""
        if self._domains is not None:
            self._domains.add(domain)
        self._next_look = -1.0

    def recover(self) -> None:
        """After a kill: quarantined files on their way to a drop have arrived there, or are where they were."""
        with self._store.reading() as tx:
            leaving = [item for item in tx.quarantine.list_all() if _is_on_its_way(item, self._layout)]
        for item in leaving:
            if os.path.lexists(item.path or ""):
                self._forget(item)
                continue
            with self._store.writing() as tx:
                assert item.drop_id is not None
                places = quarantine_places(self._layout, tx.domains.get(item.domain_id), tx.drops.get(item.drop_id), item)
                place = next((place for place in places if os.path.lexists(place)), places[0])
                tx.quarantine.move(item.id, self._layout.relative(place))

    def look(self) -> None:
        """One turn: take in what the last look found, and begin the next where it is due."""
        if self._looking is None:
            if self._clock() >= self._next_look:
                self._looking, wanted = Future(), self._domains
                self._domains = set()
                Thread(target=self._find, args=(self._looking, wanted), name="latecomers", daemon=True).start()
        elif self._looking.done():
            found, self._looking = self._looking, None
            late = found.result()
            for one in late:
                if one.is_settled and self._clock() >= self._retry_at.get(one.drop.id, -1.0):
                    self._try_to_take(one)
            self._awaited = any(one.drop.id not in self._retry_at for one in late)

    def _find(self, looking: "Future[list[Late]]", domains: set[str] | None) -> None:
        began = self._clock()
        try:
            late = list(self._list_late(domains))
        except Exception as problem:  # noqa: BLE001 (raised by whoever asks for the result)
            # The next look is to be at all that this one was for.
            self._domains = None if domains is None else domains.union(self._domains or ())
            looking.set_exception(problem)
        else:
            looking.set_result(late)
        now = self._clock()
        self._next_look = max(self._next_look, now + max(self._settle_seconds, LOOK_SHARE * (now - began)))

    def _list_late(self, wanted: set[str] | None) -> Iterator[Late]:
        with self._store.reading() as tx:
            names, kept = {domain.id: domain.name for domain in tx.domains.list_all()}, list_kept(tx)
            drops = [d for d in tx.drops.list_all() if not Path(d.path).is_absolute() and not is_forgotten(d, kept)]
            aside: dict[int | None, list[Quarantined]] = {}
            for item in tx.quarantine.list_all():
                aside.setdefault(item.drop_id, []).append(item)
        for drop in drops:
            is_recent = abs(time.time() - drop.claimed_at.timestamp()) < RECENT_SECONDS
            if (wanted is None or names[drop.domain_id] in wanted or is_recent) and (self._layout.state / drop.path).is_dir():
                try:
                    late = self._look_at(drop, aside.get(drop.id, []))
                    self._told.pop(drop.id, None)
                except OSError as problem:
                    self._told[drop.id] = f"drop {drop.number} of {names[drop.domain_id]} cannot be looked at: {problem}"
                    continue
                if late is not None:
                    yield late

    def _look_at(self, drop: DropRecord, aside: Iterable[Quarantined]) -> Late | None:
        folder, pending = self._layout.state / drop.path, {item.name for item in aside if item.path is None}
        changed = tuple(item for item in aside if has_changed(item, self._layout))
        if drop.delivery is None:
            if drop.taken is None or is_as_claimed(folder, drop, pending):
                return None
            claimed = Claimed(read_files(folder))
            return Late(drop, claimed, (), self._are_settled(folder / path for path in claimed.files))
        claimed = read_claimed(folder, drop, lambda: self._list_images(drop.domain_id), pending)
        if not claimed.late and not changed:
            return None
        paths = [*(folder / path for path in claimed.late), *(self._layout.state / (item.path or "") for item in changed)]
        return Late(drop, claimed, changed, self._are_settled(paths))

    def _list_images(self, domain_id: int) -> tuple[Image, ...]:
        with self._store.reading() as tx:
            return tx.images.list_for(domain_id)

    def _are_settled(self, paths: Iterable[Path]) -> bool:
        """Whether nobody has touched them for as long as a drop in the inbox is waited for."""
        now = time.time()
        for path in paths:
            inside = path.relative_to(self._layout.state).parts
            seconds = self._temporary_seconds if any(map(is_temporary, inside)) else self._settle_seconds
            if abs(now - os.lstat(path).st_ctime) < seconds:
                return False
        return True

    def _try_to_take(self, late: Late) -> None:
        """Trouble with one drop is its own."""
        try:
            self._take(late)
        except OSError as problem:
            self._stuck[late.drop.id] = f"files that came late for {late.drop.origin} cannot be taken: {problem}"
            self._retry_at[late.drop.id] = self._clock() + STUCK_SECONDS
        else:
            self._stuck.pop(late.drop.id, None)
            self._retry_at.pop(late.drop.id, None)

    def _take(self, late: Late) -> None:
        if late.drop.delivery is None:
            self._wake(late.drop)
            return
        new, moving = self._record(late)
        target = self._layout.state / new.path
        try:
            for top, inside, place in moving:
                make_folder(place.parent)
                with opened(top) as folder, holding(folder, inside) as (parent, name), opened(place.parent) as ours:
                    rename(parent, name, ours, place.name)
        except OSError:
            if not any(os.path.lexists(place) for _, _, place in moving):
                self._take_back(late, new)
            raise
        sync_trees([target])
        for item in late.quarantined:
            self._forget(item)
        self._note_rest(late)
        log.info(self._deliveries.confirm(new), extra={"drop": new.number})

    def _wake(self, drop: DropRecord) -> None:
        """A drop that waits for more has got more: its domain is imported again."""
        with self._store.writing() as tx:
            domain = tx.domains.get(drop.domain_id)
            if domain.state is DomainState.DONE or (domain.state is DomainState.SETTLED and domain.reason is not None):
                tx.domains.set_state(domain.id, DomainState.SETTLED)

    def _record(self, late: Late) -> tuple[DropRecord, list[tuple[Path, str, Path]]]:
        """The row of the new drop, and what is to be moved into it: from below which folder, where there, and where to."""
        drop, folder = late.drop, self._layout.state / late.drop.path
        with self._store.writing() as tx:
            number, target = find_place(tx, self._layout, drop.domain_id)
            moving, taken = [(folder, path, target / path) for path in late.claimed.late], set(map(spell, late.claimed.late))
            for item in late.quarantined:
                # Spelled out, two odd names may be the same.
                inside = item.name if spell(item.name) not in taken else f"{item.id}/{item.name}"
                taken.add(spell(item.name))
                moving.append((self._layout.quarantined, _below_quarantine(item, self._layout), target / inside))
                tx.quarantine.move(item.id, str(target / inside))
            tx.images.forget_originals_of(late.claimed.overwritten)
            tx.drops.lose_images(drop.id, len(late.claimed.overwritten))
            size = sum(late.claimed.files[path].size for path in late.claimed.late)
            row = NewDrop(drop.domain_id, number, self._layout.relative(target), drop.origin, "", len(moving), size)
            return tx.drops.add(row), moving

    def _take_back(self, late: Late, new: DropRecord) -> None:
        """None of it can be moved: as if nobody had tried."""
        with self._store.writing() as tx:
            tx.drops.remove(new.id)
            tx.images.keep_originals_of(late.claimed.overwritten)
            tx.drops.lose_images(late.drop.id, -len(late.claimed.overwritten))
            for item in late.quarantined:
                assert item.path is not None
                tx.quarantine.move(item.id, item.path)
        remove(self._layout.state / new.path)

    def _note_rest(self, late: Late) -> None:
        """What is left in the old drop is what its import took, as it is now."""
        rest = {path: stamp for path, stamp in late.claimed.files.items() if path not in set(late.claimed.late)}
        with self._store.writing() as tx:
            tx.drops.set_taken(late.drop.id, fingerprint_taken(rest), late.drop.taken_at)

    def _forget(self, item: Quarantined) -> None:
        """A file is in quarantine no more."""
        with self._store.writing() as tx:
            tx.quarantine.remove(item.id)
            if item.drop_id is not None and is_counted(item.name):
                tx.drops.take_out(item.drop_id)


def _is_on_its_way(item: Quarantined, layout: Layout) -> bool:
    return item.drop_id is not None and item.path is not None and Path(item.path).is_relative_to(layout.drops)


def _below_quarantine(item: Quarantined, layout: Layout) -> str:
    return str((layout.state / (item.path or "")).relative_to(layout.quarantined))
