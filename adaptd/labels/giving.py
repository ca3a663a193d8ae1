"""Labels into the store and out of it. Whatever was measured with others is forgotten in the same step, to be measured anew."""

from collections import Counter
from collections.abc import Iterable, Mapping

from adaptd.records import EventKind, Purpose, Split
from adaptd.releases.given import read_taught
from adaptd.store import Store, Transaction


def give_labels(tx: Transaction, domain_id: int, labels: Mapping[int, str], *, teach: bool = False) -> dict[Purpose, int]:
    """Keep labels that fit; how many are for which purpose. What once taught a version is not measured on."""
    taught = read_taught(tx, domain_id)
    counts: Counter[Purpose] = Counter()
    for purpose in Purpose:
        is_meant = {key: label for key, label in labels.items() if (teach or key in taught) is (purpose is Purpose.TEACH)}
        counts += Counter(tx.labels.give(domain_id, is_meant, purpose))
    if Purpose.MEASURE in counts:
        _forget(tx, domain_id)
    return dict(counts)


def take_back(tx: Transaction, domain_id: int, image_ids: Iterable[int]) -> int:
    """Remove labels of a domain; how many there were."""
    wanted = set(image_ids)
    known = [label for label in tx.labels.list_for(domain_id) if label.image_id in wanted]
    if any(label.purpose is Purpose.MEASURE for label in known):
        _forget(tx, domain_id)
    return tx.labels.remove([label.image_id for label in known])


def import_labels(store: Store, name: str, labels: Mapping[int, str], origin: str, *, teach: bool) -> dict[Purpose, int]:
    """Labels of a file, all in one transaction, with a line in the domain's story."""
    with store.writing() as tx:
        domain = tx.domains.get_named(name)
        counts = give_labels(tx, domain.id, labels, teach=teach)
        message = f"{len(labels)} labels from {origin}: {tell_purposes(counts)}"
        tx.events.add(EventKind.LABELS_GIVEN, message, domain_id=domain.id)
    return counts


def remove_labels(store: Store, name: str, image_ids: Iterable[int]) -> int:
    """The same backwards."""
    with store.writing() as tx:
        domain = tx.domains.get_named(name)
        removed = take_back(tx, domain.id, image_ids)
        if removed:
            tx.events.add(EventKind.LABELS_REMOVED, f"{removed} labels were taken back", domain_id=domain.id)
    return removed


def tell_purposes(counts: Mapping[Purpose, int]) -> str:
    """In words."""
    words = {Purpose.MEASURE: "to measure on", Purpose.TEACH: "to teach"}
    return ", ".join(f"{count} {words[purpose]}" for purpose, count in sorted(counts.items()))


def _forget(tx: Transaction, domain_id: int) -> None:
    if not tx.images.has_any(domain_id, Split.TEST):
        tx.accuracies.forget_measured(domain_id)
