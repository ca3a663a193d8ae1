"""What the inbox holds becomes rows in the store, and settled drops become ours. Decodes nothing."""

import errno
import logging
import os
import shutil
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from adaptd.errors import ClaimRefused, DropChanged, InboxUnavailable
from adaptd.intake.claiming import Claimed, claim
from adaptd.intake.moving import clear_unfinished
from adaptd.intake.scanner import Drop, Scan, Scanner
from adaptd.intake.settling import DropState, Settling
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import Domain, DomainState, DropRecord, EventKind
from adaptd.store import NewDrop, Store, Transaction
from adaptd.text import printable

REFUSED_SECONDS = 30.0
"""A drop that cannot be taken is tried again after this time."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taking:
    """A drop on its way to us. `before` is its domain as it was; `claimed` is there where a thread has to copy."""

    drop: DropRecord
    before: Domain
    folder: Path
    claimed: Future[Claimed]


class Arrivals:
    """The inbox of a project, as the supervisor sees it."""

    def __init__(self, project: Project, store: Store) -> None:
        self._inbox, self._store, self._layout = project.inbox, store, Layout(project.state)
        self._copying: Taking | None = None
        self._refused: dict[Path, tuple[float, str]] = {}
        self._seen: set[str] = set()
        self._taken: dict[Path, str] = {}
        self._scan: Scan | None = None
        self._recovered = False
        self.warnings: tuple[str, ...] = ()
        self.is_available = False
        self.scanned_at: float | None = None
        self.use(project)

    def use(self, project: Project) -> None:
        """Take over settings; what is arriving has to settle anew."""
        intake = project.settings.intake
        self._in_place = intake.mode == "in-place"
        self._scanner = Scanner(self._inbox, Settling(intake.settle_seconds, intake.temporary_seconds), intake.scan_seconds)

    @property
    def next_look(self) -> float:
        """When to look again at the latest, on the monotonic clock."""
        return time.monotonic() + 1 if self._scan is None or self._copying else self._scan.next_look

    @property
    def is_quiet(self) -> bool:
        """Whether nothing in the inbox is on its way to us; what cannot be taken is not."""
        return self._copying is None and (
            self._scan is None or all(drop.folder in self._refused for drop in self._open_drops(self._scan))
        )

    def look(self, *, may_claim: bool) -> None:
        """Scan the inbox, tell the store what is arriving, and claim what is complete."""
        if self._copying is not None and self._copying.claimed.done():
            copying, self._copying = self._copying, None
            self._end(copying)
        if self._copying is None and not self._recovered:
            self._recover()
        try:
            self._scan = scan = self._scanner.scan()
        except InboxUnavailable as problem:
            self.is_available, self.warnings, self._scan = False, (str(problem),), None
            return
        self.is_available, self.scanned_at = True, time.time()
        self._tell(scan)
        self._refused = {d.folder: self._refused[d.folder] for d in scan.drops if d.folder in self._refused}
        try:
            for drop in self._open_drops(scan):
                if drop.state is DropState.SETTLED and may_claim and self._copying is None and not self._waits(drop):
                    self._take(drop)
        finally:
            refused = [message for _, message in self._refused.values()]
            self.warnings = (*(warning.message for warning in scan.warnings), *refused)

    def _recover(self) -> None:
        """Finish or forget claims that were cut short, by the end of a process or by trouble."""
        with self._store.reading() as tx:
            waiting = tx.drops.list_waiting()
            arriving = {domain.id: domain.name for domain in tx.domains.list_all() if domain.state is DomainState.ARRIVING}
        for drop in waiting:
            target = self._layout.state / drop.path
            in_place = Path(drop.path).is_absolute()
            if not target.is_dir():
                if not in_place:
                    clear_unfinished(target)
                self._forget(drop)
                continue
            # Of a drop that was copied, something may be left to remove in the inbox.
            if not in_place:
                claim(self._find_origin(drop), target)
            if drop.domain_id in arriving:
                self._settled(drop)
        self._seen = set(arriving.values())
        self._recovered = True

    def _find_origin(self, drop: DropRecord) -> Path:
        """Its folder in the inbox, whose name the store may have spelled out."""
        found = self._inbox.glob("*") if self._inbox.is_dir() else ()
        return next((folder for folder in found if printable(folder) == drop.origin), Path(drop.origin))

    def _open_drops(self, scan: Scan) -> list[Drop]:
        """Drops that are not ours yet."""
        moving = self._copying.folder if self._copying else None
        return [d for d in scan.drops if d.folder != moving and self._taken.get(d.folder) != d.tree.fingerprint]

    def _waits(self, drop: Drop) -> bool:
        return drop.folder in self._refused and time.monotonic() < self._refused[drop.folder][0]

    def _tell(self, scan: Scan) -> None:
        """Domains that something is arriving for are `arriving`, unless an earlier delivery or a person has the say."""
        names = {drop.domain for drop in self._open_drops(scan)}
        if names == self._seen:
            return
        with self._store.writing() as tx:
            for name in sorted(names - self._seen):
                domain = tx.domains.find(name)
                if domain is None:
                    domain = tx.domains.add(name, DomainState.ARRIVING)
                    tx.events.add(EventKind.DOMAIN_SEEN, f"{name} is arriving", domain_id=domain.id)
                elif domain.state is DomainState.DONE and not tx.drops.list_waiting(domain.id):
                    tx.domains.set_state(domain.id, DomainState.ARRIVING)
            for name in self._seen - names:
                self._no_longer_arriving(tx, tx.domains.get_named(name))
        self._seen = names

    def _no_longer_arriving(self, tx: Transaction, domain: Domain) -> None:
        if domain.state is DomainState.ARRIVING and not tx.drops.list_waiting(domain.id):
            done = domain.position is not None
            state, reason = (DomainState.DONE, None) if done else (DomainState.SKIPPED, "nothing of it is in the inbox any more")
            tx.domains.set_state(domain.id, state, reason)

    def _take(self, found: Drop) -> None:
        self._refused.pop(found.folder, None)
        has_to_copy = not self._in_place and self._inbox.stat().st_dev != self._layout.state.stat().st_dev
        if has_to_copy and shutil.disk_usage(self._layout.state).free < found.tree.size_bytes:
            self._refuse(found.folder, f"{printable(found.folder)} does not fit on the disk of {self._layout.state}: make room")
            return
        taking = self._write_down(found)
        if taking is None:
            return
        if self._in_place:
            self._settled(taking.drop)
            return
        order = (taking, self._layout.state / taking.drop.path, found.tree.fingerprint)
        if has_to_copy:
            # A thread that ends with the process, wherever it is: the next start begins the copy again.
            threading.Thread(target=_claim, args=order, name="copying", daemon=True).start()
            self._copying = taking
        else:
            _claim(*order)
            self._end(taking)

    def _refuse(self, folder: Path, why: str) -> None:
        self._refused[folder] = (time.monotonic() + REFUSED_SECONDS, why)

    def _write_down(self, found: Drop) -> Taking | None:
        """The row comes before the rename, so that after a kill every folder has one."""
        tree, origin = found.tree, printable(found.folder)
        with self._store.writing() as tx:
            domain = tx.domains.get_named(found.domain)
            if self._in_place:
                before = [drop for drop in tx.drops.list_all(domain.id) if drop.origin == origin]
                if before and before[-1].fingerprint == tree.fingerprint:
                    self._taken[found.folder] = tree.fingerprint
                    self._no_longer_arriving(tx, domain)
                    return None
            number = tx.drops.next_number(domain.id)
            if tx.episodes.find_unfinished(domain.id) is None:
                tx.domains.set_state(domain.id, DomainState.ARRIVING)
            path = str(found.folder) if self._in_place else self._layout.relative(self._layout.drop(domain.id, number))
            drop = tx.drops.add(NewDrop(domain.id, number, path, origin, tree.fingerprint, tree.files, tree.size_bytes))
        self._recovered = False  # until it has a folder and is settled, or is forgotten
        if self._in_place:
            self._taken[found.folder] = tree.fingerprint
        return Taking(drop, domain, found.folder, Future())

    def _end(self, taking: Taking) -> None:
        """A claim is over, well or not."""
        problem = taking.claimed.exception()
        if problem is None:
            for left in taking.claimed.result().left:
                log.warning(left)
            self._settled(taking.drop)
            return
        if os.path.lexists(self._layout.state / taking.drop.path):  # it has moved already, only the end is missing
            raise problem
        self._forget(taking.drop, taking.before)
        self._recovered = True
        if isinstance(problem, ClaimRefused) or (isinstance(problem, OSError) and problem.errno not in NO_ROOM):
            self._refuse(taking.folder, str(problem))
        elif not isinstance(problem, DropChanged):  # else the next scan sees what it is now
            raise problem

    def _settled(self, drop: DropRecord) -> None:
        """A drop is ours: its domain is next for an import, with what an episode that failed had, unless one is at work."""
        with self._store.writing() as tx:
            domain = tx.domains.get(drop.domain_id)
            if tx.episodes.find_unfinished(domain.id) is None:
                tx.drops.give_back(domain.id, tx.episodes.last_delivery(domain.id) + 1)
                tx.domains.set_state(domain.id, DomainState.SETTLED)
            message = f"{domain.name}: {drop.files:,} files came as drop {drop.number}"
            tx.events.add(EventKind.DROP_CLAIMED, message, domain_id=domain.id, files=drop.files, bytes=drop.size_bytes)
        self._recovered = True
        log.info(message, extra={"domain": domain.name, "drop": drop.number})

    def _forget(self, drop: DropRecord, before: Domain | None = None) -> None:
        """It did not come after all; its domain is what it was before."""
        with self._store.writing() as tx:
            tx.drops.remove(drop.id)
            if before is not None and tx.domains.get(before.id).state is DomainState.ARRIVING:
                tx.domains.set_state(before.id, before.state, before.reason)


def _claim(taking: Taking, target: Path, fingerprint: str) -> None:
    """Claim, and leave what came of it where the loop finds it."""
    try:
        taking.claimed.set_result(claim(taking.folder, target, fingerprint))
    except Exception as problem:  # noqa: BLE001 (told to the loop, which raises it)
        taking.claimed.set_exception(problem)
