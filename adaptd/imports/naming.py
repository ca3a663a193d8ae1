"""Which domain a folder feeds: the one of its name, or the one that it fed when names were made in another way."""

from pathlib import Path

from adaptd.intake.names import find_domain_name, find_old_name
from adaptd.store import Transaction
from adaptd.text import printable


def name_domain(tx: Transaction, folder: str) -> str | None:
    """The name of the domain that a folder of this name feeds; None where it cannot name one.

    Before revision 0004 of the store `Camera 7` fed `camera-7`, and goes on to do so. A domain of that time that no drop came for
    was made by a command, of a folder that nobody wrote down: it is taken to be this one.
    """
    name, old = find_domain_name(folder), find_old_name(folder)
    if name in {None, old} or tx.domains.find(name or "") is not None:
        return name
    domain = tx.domains.find(old)
    if domain is None or not domain.old_spelling:
        return name
    origins = {Path(drop.origin).name for drop in tx.drops.list_all(domain.id)}
    return old if not origins or printable(Path(folder)) in origins else name
