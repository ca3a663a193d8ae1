"""What `run --drain` tells at its end: which domains came to nothing since it began, and what waits for a person."""

from datetime import datetime

from adaptd.records import DomainState, VersionState
from adaptd.store import Transaction

WORDS = {DomainState.FAILED: " failed", DomainState.REFUSED: " was refused", DomainState.REJECTED: ""}
"""The reason of one that was rejected says so."""

Ended = dict[int, datetime]
"""Domains that came to nothing, by id, and when."""


def find_ended(tx: Transaction) -> Ended:
    """All of them."""
    return {domain.id: domain.updated_at for domain in tx.domains.list_all() if domain.state in WORDS}


def list_failures(tx: Transaction, before: Ended) -> list[str]:
    """In sentences, those that are not as they were before; and drops that wait for a first version."""
    new = [tx.domains.get(key) for key, at in find_ended(tx).items() if before.get(key) != at]
    said = [f"{domain.name}{WORDS[domain.state]}: {domain.reason or 'see `adaptd explain`'}" for domain in new]
    waiting = tx.drops.list_waiting()
    if waiting and tx.versions.find_latest(VersionState.PROMOTED) is None:
        names = dict.fromkeys(tx.domains.get(drop.domain_id).name for drop in waiting)
        said.append(f"no version is promoted to adapt from, and drops wait: {', '.join(names)}")
    return said
