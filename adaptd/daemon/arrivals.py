"""What the inbox holds becomes rows in the store, and settled drops become ours. Decodes nothing."""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from adaptd.config import Project
from adaptd.daemon.layout import Layout
from adaptd.errors import ClaimRefused, DropChanged, InboxUnavailable, IntakeError
from adaptd.intake.claiming import Claimed, claim
from adaptd.intake.scanner import Drop, Scan, Scanner
from adaptd.intake.settling import DropState, Settling
from adaptd.library.folders import printable
from adaptd.records import Domain, DomainState, DropRecord
from adaptd.store import NewDrop, Store, Transaction

log = logging.getLogger(__name__)

AT_REST = {DomainState.DONE, DomainState.FAILED, DomainState.SKIPPED}


@dataclass(frozen=True, slots=True)
class Copying:
    """A claim that has to copy, in a thread: the inbox is on another filesystem."""

    drop: DropRecord
    folder: Path
    claimed: Future[Claimed]


class Arrivals:
    """The inbox of a project, as the supervisor sees it."""

    def __init__(self, project: Project, store: Store) -> None:
        intake = project.settings.intake
        self._inbox, self._store, self._layout = project.inbox, store, Layout(project.state)
        self._in_place = intake.mode == "in-place"
        self._scanner = Scanner(self._inbox, Settling(intake.settle_seconds, intake.temporary_seconds), intake.scan_seconds)
        self._copier = ThreadPoolExecutor(1, "copying")
        self._copying: Copying | None = None
        self._seen: set[str] = set()
        self._taken: dict[Path, str] = {}
        self._scan: Scan | None = None
        self.warnings: tuple[str, ...] = ()
        self.is_available = False
        self.scanned_at: float | None = None

    @property
    def next_look(self) -> float:
        """When to look again at the latest, on the monotonic clock."""
        return time.monotonic() + 1 if self._scan is None or self._copying else self._scan.next_look

    @property
    def is_quiet(self) -> bool:
        """Whether nothing in the inbox is on its way to us."""
        return self._scan is not None and self._copying is None and not self._open_drops(self._scan)

    def recover(self) -> None:
        """Finish or forget the claims of a process that was killed."""
        with self._store.reading() as tx:
            waiting = tx.drops.list_waiting()
            arriving = {domain.id for domain in tx.domains.list_all() if domain.state is DomainState.ARRIVING}
        for drop in waiting:
            target = self._layout.state / drop.path
            if not target.is_dir():
                self._forget(drop)
            elif drop.domain_id in arriving:
                # Of a drop that was copied, something may be left to remove in the inbox.
                if not Path(drop.path).is_absolute():
                    claim(Path(drop.origin), target)
                self._settled(drop)

    def look(self, *, may_claim: bool) -> None:
        """Scan the inbox, tell the store what is arriving, and claim what is complete."""
        if self._copying is not None and self._copying.claimed.done():
            self._copied(self._copying)
        try:
            self._scan = scan = self._scanner.scan()
        except InboxUnavailable as problem:
            self.is_available, self.warnings, self._scan = False, (str(problem),), None
            return
        self.is_available, self.scanned_at = True, time.time()
        warnings = [warning.message for warning in scan.warnings]
        self._tell(scan)
        for drop in self._open_drops(scan):
            if drop.state is DropState.SETTLED and may_claim and self._copying is None:
                try:
                    self._take(drop)
                except DropChanged:
                    continue  # the next scan sees what it is now
                except ClaimRefused as problem:
                    warnings.append(str(problem))
        self.warnings = tuple(warnings)

    def close(self) -> None:
        """Wait for a copy that has begun; killed instead, it would be finished at the next start."""
        self._copier.shutdown(wait=True)
        if self._copying is not None:
            self._copied(self._copying)

    def _open_drops(self, scan: Scan) -> list[Drop]:
        """Drops that are not ours yet."""
        moving = self._copying.folder if self._copying else None
        return [d for d in scan.drops if d.folder != moving and self._taken.get(d.folder) != d.tree.fingerprint]

    def _tell(self, scan: Scan) -> None:
        """Domains that something is arriving for are `arriving`, unless an earlier batch keeps them busy."""
        names = {drop.domain for drop in self._open_drops(scan)}
        if names == self._seen:
            return
        with self._store.writing() as tx:
            for name in sorted(names - self._seen):
                domain = tx.domains.find(name)
                if domain is None:
                    domain = tx.domains.add(name, DomainState.ARRIVING)
                    tx.events.add("domain-seen", f"{name} is arriving", domain_id=domain.id)
                elif domain.state in {DomainState.DONE, DomainState.SKIPPED}:
                    tx.domains.set_state(domain.id, DomainState.ARRIVING)
            for name in self._seen - names:
                self._no_longer_arriving(tx, tx.domains.get_named(name))
        self._seen = names

    def _no_longer_arriving(self, tx: Transaction, domain: Domain) -> None:
        if domain.state is DomainState.ARRIVING and not tx.drops.list_waiting(domain.id):
            done = domain.position is not None
            state, reason = (DomainState.DONE, None) if done else (DomainState.SKIPPED, "its folder left the inbox unfinished")
            tx.domains.set_state(domain.id, state, reason)

    def _take(self, found: Drop) -> None:
        record = self._write_down(found)
        if record is None:
            return
        target = self._layout.state / record.path
        if self._in_place:
            self._settled(record)
        elif self._inbox.stat().st_dev == self._layout.state.stat().st_dev:
            try:
                claim(found.folder, target, found.tree.fingerprint)
            except (IntakeError, OSError):
                self._forget(record)
                raise
            self._settled(record)
        else:
            claimed = self._copier.submit(claim, found.folder, target, found.tree.fingerprint)
            self._copying = Copying(record, found.folder, claimed)

    def _write_down(self, found: Drop) -> DropRecord | None:
        """The row comes before the rename, so that after a kill every folder has one."""
        tree, origin = found.tree, printable(found.folder)
        with self._store.writing() as tx:
            domain = tx.domains.get_named(found.domain)
            if self._in_place:
                self._taken[found.folder] = tree.fingerprint
                before = [drop for drop in tx.drops.list_all(domain.id) if drop.origin == origin]
                if before and before[-1].fingerprint == tree.fingerprint:
                    self._no_longer_arriving(tx, domain)
                    return None
            number = tx.drops.next_number(domain.id)
            if tx.episodes.find_unfinished(domain.id) is None:
                tx.domains.set_state(domain.id, DomainState.ARRIVING)
            path = str(found.folder) if self._in_place else self._layout.relative(self._layout.drop(domain.id, number))
            return tx.drops.add(NewDrop(domain.id, number, path, origin, tree.fingerprint, tree.files, tree.size_bytes))

    def _settled(self, drop: DropRecord) -> None:
        """A drop is ours: its domain is next for an import, with what an episode that failed had, unless one is at work."""
        with self._store.writing() as tx:
            domain = tx.domains.get(drop.domain_id)
            if tx.episodes.find_unfinished(domain.id) is None:
                tx.drops.give_back(domain.id, tx.episodes.last_batch(domain.id) + 1)
                tx.domains.set_state(domain.id, DomainState.SETTLED)
            message = f"{domain.name}: {drop.files:,} files came as drop {drop.number}"
            tx.events.add("drop-claimed", message, domain_id=domain.id, files=drop.files, bytes=drop.size_bytes)
        log.info(message, extra={"domain": domain.name, "drop": drop.number})

    def _forget(self, drop: DropRecord) -> None:
        with self._store.writing() as tx:
            tx.drops.remove(drop.id)

    def _copied(self, copying: Copying) -> None:
        self._copying = None
        problem = copying.claimed.exception()
        if problem is None:
            for left in copying.claimed.result().left:
                log.warning(left)
            self._settled(copying.drop)
            return
        self._forget(copying.drop)
        if not isinstance(problem, DropChanged):
            raise problem
