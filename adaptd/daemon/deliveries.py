"""What the store is told of the inbox: domains that something arrives for, and each drop as a delivery of its domain.

Every method is one transaction. Which of them is called when is for `arrivals`.
"""

from dataclasses import replace
from pathlib import Path

from adaptd.daemon.poison import record_delay
from adaptd.imports.naming import name_domain
from adaptd.intake.scanner import Drop, Scan
from adaptd.project.layout import Layout
from adaptd.records import Domain, DomainState, DropRecord, EventKind
from adaptd.store import NewDrop, Store, Transaction
from adaptd.text import printable, tell_count

NOTHING_THERE = "nothing of it is in the inbox, and no import of it was finished: drop it, or run its command, again"
"""Why a domain that was arriving is skipped."""
ANNOUNCED = 500
"""Domains in one transaction, which others have to wait for."""


class Deliveries:
    """Rows of drops, and the states of their domains until an import begins."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: dict[str, str] = {}  # of domains, by folder

    def name_domains(self, scan: Scan) -> Scan:
        """What a scan shows, each drop with the domain that its folder feeds, which may have an older name."""
        new = {drop.folder.name: drop.domain for drop in scan.drops if drop.folder.name not in self._names}
        if new:
            with self._store.reading() as tx:
                self._names |= {folder: name_domain(tx, folder) or domain for folder, domain in new.items()}
        return replace(scan, drops=tuple(replace(drop, domain=self._names[drop.folder.name]) for drop in scan.drops))

    def read(self) -> tuple[tuple[tuple[DropRecord, Domain], ...], frozenset[str]]:
        """The drops that wait with their domains, oldest first, and the names of the domains that are arriving."""
        with self._store.reading() as tx:
            domains = {domain.id: domain for domain in tx.domains.list_all()}
            waiting = tuple((drop, domains[drop.domain_id]) for drop in tx.drops.list_waiting())
        return waiting, frozenset(domain.name for domain in domains.values() if domain.state is DomainState.ARRIVING)

    def announce(self, names: frozenset[str], before: frozenset[str]) -> frozenset[str]:
        """Domains that something arrives for are `arriving`, unless an earlier delivery or a person has the say.

        Of very many some wait for the next call: the answer has those that the store was told of.
        """
        begun, ended = sorted(names - before)[:ANNOUNCED], sorted(before - names)[:ANNOUNCED]
        if begun or ended:
            with self._store.writing() as tx:
                for name in begun:
                    _begin_arriving(tx, name)
                for name in ended:
                    _end_arriving(tx, tx.domains.get_named(name))
        return before.union(begun).difference(ended)

    def is_known(self, found: Drop) -> bool:
        """Whether the newest drop of this folder had the same files; then nothing is arriving."""
        with self._store.writing() as tx:
            domain, origin = tx.domains.get_named(found.domain), printable(found.folder)
            # It may have joined another domain.
            before = [drop for drop in tx.drops.list_all() if drop.origin == origin]
            if not before or before[-1].fingerprint != found.tree.fingerprint:
                return False
            _end_arriving(tx, domain)
        return True

    def add(self, found: Drop, layout: Layout, *, in_place: bool) -> tuple[DropRecord, Domain]:
        """The row of a drop that is about to be ours, and its domain as it was."""
        tree, origin = found.tree, printable(found.folder)
        with self._store.writing() as tx:
            domain = tx.domains.get_named(found.domain)
            number, target = find_place(tx, layout, domain.id)
            if tx.episodes.find_unfinished(domain.id) is None:
                tx.domains.set_state(domain.id, DomainState.ARRIVING)
            path = str(found.folder) if in_place else layout.relative(target)
            drop = tx.drops.add(NewDrop(domain.id, number, path, origin, tree.fingerprint, tree.files, tree.size_bytes))
        return drop, domain

    def is_arriving(self, drop: DropRecord) -> bool:
        """Whether a drop's domain still waits for it."""
        with self._store.reading() as tx:
            return tx.domains.get(drop.domain_id).state is DomainState.ARRIVING

    def confirm(self, drop: DropRecord) -> str:
        """It is ours: its domain is next for an import, with what a failed episode had, unless an episode is at work."""
        with self._store.writing() as tx:
            domain = tx.domains.get(drop.domain_id)
            # A person may have cancelled it while it was copied.
            if domain.state is not DomainState.SKIPPED and tx.episodes.find_unfinished(domain.id) is None:
                tx.drops.give_back(domain.id, tx.episodes.last_delivery(domain.id) + 1)
                tx.domains.set_state(domain.id, DomainState.SETTLED)
            message = f"{domain.name}: {tell_count(drop.files, 'file')} came as drop {drop.number}"
            tx.events.add(EventKind.DROP_CLAIMED, message, domain_id=domain.id, files=drop.files, bytes=drop.size_bytes)
        return message

    def refuse(self, name: str, why: str, *, is_new: bool) -> None:
        """A drop cannot be taken: its domain says why while it waits for it."""
        with self._store.writing() as tx:
            domain = tx.domains.get_named(name)
            if domain.state is DomainState.ARRIVING:
                tx.domains.set_state(domain.id, DomainState.ARRIVING, why)
            if is_new:
                tx.events.add(EventKind.DROP_REFUSED, why, domain_id=domain.id)

    def delay(self, drop: DropRecord, why: str) -> None:
        """Something of a drop cannot be moved: counted, as a crash of its import is."""
        with self._store.writing() as tx:
            record_delay(tx, drop.domain_id, why)

    def remove(self, drop: DropRecord, before: Domain) -> None:
        """It did not come after all: its domain is what it was before."""
        with self._store.writing() as tx:
            tx.drops.remove(drop.id)
            if tx.domains.get(before.id).state is DomainState.ARRIVING:
                tx.domains.set_state(before.id, before.state, before.reason)


def find_place(tx: Transaction, layout: Layout, domain_id: int) -> tuple[int, Path]:
    """The number of a domain's next drop, and where it goes: where no other lies, though it joined another domain."""
    number = tx.drops.next_number(domain_id)
    while tx.drops.has_path(layout.relative(layout.drop(domain_id, number))):
        number += 1
    return number, layout.drop(domain_id, number)


def _begin_arriving(tx: Transaction, name: str) -> None:
    domain = tx.domains.find(name)
    if domain is None:
        domain = tx.domains.add(name, DomainState.ARRIVING)
        tx.events.add(EventKind.DOMAIN_SEEN, f"{name} is arriving", domain_id=domain.id)
    elif domain.state is DomainState.DONE and not tx.drops.list_waiting(domain.id):
        tx.domains.set_state(domain.id, DomainState.ARRIVING)


def _end_arriving(tx: Transaction, domain: Domain) -> None:
    """Nothing of it is in the inbox; with a drop that waits it is arriving nevertheless."""
    if domain.state is DomainState.ARRIVING and not tx.drops.list_waiting(domain.id):
        done = domain.position is not None
        state, reason = (DomainState.DONE, None) if done else (DomainState.SKIPPED, NOTHING_THERE)
        tx.domains.set_state(domain.id, state, reason)
