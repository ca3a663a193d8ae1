"""The chain of promotions: what going back leads to, and which accuracies still count."""

from datetime import UTC, datetime

from adaptd.project.layers import load_project
from adaptd.records import Accuracy, AccuracyKind, Version, VersionState
from adaptd.releases.facts import read_best
from adaptd.releases.lineage import find_best, find_chain
from adaptd.store import Store


def version(
    number: int, restores: int | None = None, state: VersionState = VersionState.PROMOTED, forced_because: str | None = None
) -> Version:
    """One of a chain."""
    parent, now = number - 1 or None, datetime(2026, 1, 1, tzinfo=UTC)
    files = ("w", "aa", None, None)
    return Version(number, parent, restores, number, state, ("a", "b"), *files, None, forced_because, None, now, now)


def chain(*versions: Version) -> list[int]:
    """Its numbers."""
    return [step.version for step in find_chain(versions)]


def test_going_back_takes_steps_off_the_chain():
    """Also twice, and what comes after it goes on from there."""
    first = [version(1), version(2), version(3)]
    assert chain(*first) == [1, 2, 3]
    assert chain(*first, version(4, restores=2)) == [1, 2]
    assert chain(*first, version(4, restores=2), version(5, restores=1)) == [1]
    assert chain(*first, version(4, restores=1), version(5)) == [1, 5]
    assert chain(*first, version(4, restores=2), version(5, restores=3)) == [1, 2, 5]


def test_only_what_was_promoted_is_on_it():
    """A rejected version is not, until somebody forces it; a retired one stays."""
    rejected = version(3, state=VersionState.REJECTED)
    assert chain(version(1, state=VersionState.RETIRED), version(2), rejected, version(4)) == [1, 2, 4]
    assert chain(version(1), version(2), rejected, version(4), version(5, restores=3)) == [1, 2, 4, 5]
    assert chain() == []


def accuracy(number: int, value: float, kind: AccuracyKind = AccuracyKind.MEASURED) -> Accuracy:
    """On one domain."""
    return Accuracy(number, 7, kind, value, 100)


def test_the_best_before_the_served_version_counts():
    """Measured, on the way, and not from before a version that somebody forced."""
    four = [version(1), version(2), version(3), version(4)]
    rows = [accuracy(n, value) for n, value in ((1, 0.9), (2, 0.95), (3, 0.8), (4, 0.99))]
    assert find_best(find_chain(four), rows)[7].version == 2
    assert find_best(find_chain([*four[:2], version(3, restores=1)]), rows) == {}
    assert find_best(find_chain([*four[:2], version(3, forced_because="so be it"), four[3]]), rows)[7].version == 3
    assert find_best(find_chain(four), [accuracy(1, 0.9, AccuracyKind.ESTIMATED)]) == {}


def test_the_gate_is_told_of_it(adapted_shop):
    """With version 2 promoted, version 1 is the best before it on every domain it was measured on."""
    project = load_project(adapted_shop.root, environ={})
    with Store(project.database) as store, store.reading() as tx:
        best = read_best(tx)
    query = "SELECT name, version, value, n FROM accuracies JOIN domains ON domain_id = domains.id WHERE version = 1"
    assert {name: (b.version, b.value, b.n) for name, b in best.items()} == {row[0]: row[1:] for row in adapted_shop.rows(query)}
    assert best.keys() == {"source", "night"}
