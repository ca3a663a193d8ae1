"""How good a version is on each domain. Reads rows only; no torch here."""

from adaptd.records import Accuracy, Version
from adaptd.releases.matrix import best_known
from adaptd.store import Transaction


def read_accuracies(tx: Transaction, version: Version) -> dict[str, Accuracy]:
    """By domain's name, in R's order; weights that were brought back are as good as they were."""
    numbers = [number for number in (version.restores, version.version) if number is not None]
    accuracies = [accuracy for number in numbers for accuracy in tx.accuracies.list_for(number)]
    known = best_known(accuracies, lambda accuracy: accuracy.domain_id)
    domains = sorted(tx.domains.list_some(known), key=lambda domain: domain.position or 0)
    return {domain.name: known[domain.id] for domain in domains}
