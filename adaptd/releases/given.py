"""Labels that people gave, as far as versions are measured on them. Reads rows only; no torch here."""

from collections.abc import Iterable, Mapping

from adaptd.records import AccuracyKind, Domain, EpisodeState, Label, Purpose, Split, Version
from adaptd.store import Transaction

LEAST_LABELS = 20
"""Fewer say too little to stand in place of an estimate: with this many an accuracy is known to ± 20 points."""

TAUGHT = "taught"
"""Under this name an episode's report lists the images whose given labels it learned from."""

Given = Mapping[int, int]
"""Image id → index of its class."""


def read_given(tx: Transaction, domains: Iterable[Domain]) -> dict[int, Given]:
    """By domain id, the labels to measure on, of domains that have enough of them and no test set of their own."""
    base, counts = tx.versions.find_base(), tx.labels.counts()
    enough = [domain for domain in domains if counts.get((domain.id, Purpose.MEASURE), 0) >= LEAST_LABELS]
    return {
        domain.id: index_labels(tx.labels.list_for(domain.id, Purpose.MEASURE), base.classes)
        for domain in enough
        if base is not None and not tx.images.has_any(domain.id, Split.TEST)
    }


def read_taught(tx: Transaction, domain_id: int) -> frozenset[int]:
    """Images whose labels taught an episode of a domain: no version is measured on them, also if labels are taken back."""
    done = (episode for episode in tx.episodes.list_all(EpisodeState.DONE) if episode.domain_id == domain_id)
    return frozenset(image_id for episode in done for image_id in episode.report.get(TAUGHT, ()))


def index_labels(labels: Iterable[Label], classes: tuple[str, ...]) -> Given:
    """As models number their classes."""
    numbers = {name: number for number, name in enumerate(classes)}
    return {label.image_id: numbers[label.label] for label in labels if label.label in numbers}


def list_unmeasured(tx: Transaction) -> dict[int, tuple[Version, ...]]:
    """By domain id, the versions that are still to be measured on given labels; one that was brought back is no other model."""
    given = read_given(tx, (domain for domain in tx.domains.list_all() if domain.position is not None))
    known = {(a.version, a.domain_id) for a in tx.accuracies.list_all() if a.kind is AccuracyKind.MEASURED} if given else set()
    models = [version for version in tx.versions.list_all() if version.restores is None]
    missing = {key: tuple(version for version in models if (version.version, key) not in known) for key in given}
    return {key: versions for key, versions in missing.items() if versions}
