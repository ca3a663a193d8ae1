"""Labels into the store and out of it. Whatever was measured with others is forgotten in the same step, to be measured anew."""

from collections.abc import Iterable, Mapping

from adaptd.labels.choosing import Gallery, read_gallery
from adaptd.records import EventKind, Purpose, Split
from adaptd.store import Store, Transaction


def give_labels(tx: Transaction, gallery: Gallery, labels: Mapping[int, str], *, teach: bool = False) -> dict[Purpose, int]:
    """Keep labels that fit; how many are for which purpose."""
    measured = tx.labels.list_for(gallery.domain.id, Purpose.MEASURE)
    counts = tx.labels.give(gallery.domain.id, labels, Purpose.TEACH if teach else Purpose.MEASURE)
    if tx.labels.list_for(gallery.domain.id, Purpose.MEASURE) != measured:
        _forget(tx, gallery.domain.id)
    return counts


def take_back(tx: Transaction, gallery: Gallery, image_ids: Iterable[int]) -> int:
    """Remove labels; how many there were."""
    known = [gallery.labels[key] for key in image_ids if key in gallery.labels]
    if any(label.purpose is Purpose.MEASURE for label in known):
        _forget(tx, gallery.domain.id)
    return tx.labels.remove([label.image_id for label in known])


def import_labels(store: Store, name: str, labels: Mapping[int, str], origin: str, *, teach: bool) -> dict[Purpose, int]:
    """Labels of a file, all in one transaction, with a line in the domain's story."""
    with store.writing() as tx:
        gallery = read_gallery(tx, name)
        counts = give_labels(tx, gallery, labels, teach=teach)
        message = f"{len(labels)} labels from {origin}: {tell_purposes(counts)}"
        tx.events.add(EventKind.LABELS_GIVEN, message, domain_id=gallery.domain.id)
    return counts


def remove_labels(store: Store, name: str, image_ids: Iterable[int]) -> int:
    """The same backwards."""
    with store.writing() as tx:
        gallery = read_gallery(tx, name)
        removed = take_back(tx, gallery, image_ids)
        if removed:
            tx.events.add(EventKind.LABELS_REMOVED, f"{removed} labels were taken back", domain_id=gallery.domain.id)
    return removed


def tell_purposes(counts: Mapping[Purpose, int]) -> str:
    """In words."""
    words = {Purpose.MEASURE: "to measure on", Purpose.TEACH: "to teach"}
    return ", ".join(f"{count} {words[purpose]}" for purpose, count in sorted(counts.items()))


def _forget(tx: Transaction, domain_id: int) -> None:
    if not tx.images.has_any(domain_id, Split.TEST):
        tx.accuracies.forget_measured(domain_id)
