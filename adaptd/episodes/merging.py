"""A drop that is no new domain joins the one it is known as: its folders wait there as that domain's next delivery.

All of it is rows, changed in the transaction of whoever calls: no file moves, so that a kill leaves it done or not begun.
The next import decodes the folders again, and leaves out what the domain has already.
"""

from adaptd.records import Domain, DomainState, EventKind
from adaptd.store import Transaction


def merge_delivery(tx: Transaction, domain: Domain, delivery: int, into: Domain, why: str) -> None:
    """Hand the drops of a delivery that nothing was learned from over to another domain, with their quarantined files.

    Args:
        tx: a writing transaction.
        domain: whose drops they are; with others that wait it is next for an import, else it is skipped.
        delivery: of which drops.
        into: the domain they join.
        why: for people.
    """
    drops = [drop.id for drop in tx.drops.list_all(domain.id) if drop.delivery == delivery]
    tx.images.remove_delivery(domain.id, delivery)
    for drop_id in drops:
        tx.drops.join(drop_id, into.id)
    tx.quarantine.join(drops, into.id)
    if tx.episodes.find_unfinished(into.id) is None:
        tx.drops.give_back(into.id, tx.episodes.last_delivery(into.id) + 1)
        tx.domains.set_state(into.id, DomainState.SETTLED)
    message = f"{why}; its images joined {into.name} as a further delivery"
    if tx.drops.list_waiting(domain.id):
        tx.domains.set_state(domain.id, DomainState.SETTLED)
    else:
        tx.domains.set_state(domain.id, DomainState.SKIPPED, message)
    for told in (domain, into):
        tx.events.add(EventKind.DROP_MERGED, message, domain_id=told.id)
