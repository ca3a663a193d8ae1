"""R as the store has it, and kept in memory for the daemon's pages and metrics, which ask often."""

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.library.memories import find_forgotten
from adaptd.records import SUPERVISED, Accuracy, AccuracyKind, EpisodeState, Estimator, Version
from adaptd.store import Transaction

Key = TypeVar("Key", bound=Hashable)


def read_matrix(tx: Transaction) -> Matrix:
    """R from the store: a row for each committed episode since the source's, a column for each domain of one."""
    done = sorted((e for e in tx.episodes.list_all(EpisodeState.DONE)), key=lambda e: e.number or 0)
    begun = max((row for row, episode in enumerate(done) if episode.method == SUPERVISED), default=0)
    episodes = done[begun:]
    every = {domain.id: domain for domain in tx.domains.list_all()}
    domains = [every[key] for key in dict.fromkeys(episode.domain_id for episode in episodes)]
    first_version: dict[int, Version] = {}
    for version in tx.versions.list_all():
        first_version.setdefault(version.episode_id, version)
    known = best_known(tx.accuracies.list_all(), lambda accuracy: (accuracy.version, accuracy.domain_id))
    entries = {key: Entry(a.value, a.kind, a.n, a.low, a.high, a.held_out) for key, a in known.items()}
    rows = tuple(
        tuple(entries.get((first_version[e.id].version, d.id)) if e.id in first_version else None for d in domains)
        for e in episodes
    )
    names = {d.id: d.name for d in domains}
    first_rows: dict[int, int] = {}
    for row, episode in enumerate(episodes):
        first_rows.setdefault(episode.domain_id, row)
    return Matrix(
        tuple(d.name for d in domains),
        tuple(e.number or 0 for e in episodes),
        rows,
        tuple(first_rows[d.id] for d in domains),
        frozenset(names[key] for key in find_forgotten(domains, episodes)),
    )


def best_known(accuracies: Iterable[Accuracy], key: Callable[[Accuracy], Key]) -> dict[Key, Accuracy]:
    """One accuracy for each key: the newest measured one where there is any, else the estimate with a range, else any other."""
    known: dict[Key, Accuracy] = {}
    for accuracy in accuracies:
        if key(accuracy) not in known or _rank(accuracy) >= max(1, _rank(known[key(accuracy)])):
            known[key(accuracy)] = accuracy
    return known


def _rank(accuracy: Accuracy) -> int:
    if accuracy.kind is AccuracyKind.MEASURED:
        return 2
    return int(accuracy.estimator == Estimator.RANGE)


class MatrixKeeper:
    """R, read again only when an accuracy was added or replaced, or a domain forgotten: tens of thousands take half a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamp: tuple[float, ...] | None = None
        self._matrix, self._csv = Matrix((), (), ()), b""

    def read(self, tx: Transaction) -> Matrix:
        """As `read_matrix`."""
        stamp = (*tx.accuracies.stamp(), tx.domains.forgotten_stamp())
        with self._lock:
            if stamp != self._stamp:
                self._matrix, self._csv, self._stamp = read_matrix(tx), b"", stamp
            return self._matrix

    def read_csv(self, tx: Transaction) -> bytes:
        """R as a table, written once for all who ask: that takes longer than reading it."""
        matrix = self.read(tx)
        with self._lock:
            if matrix is not self._matrix:  # another one is newer already, and of this one there is no table
                return matrix.to_csv().encode()
            self._csv = self._csv or matrix.to_csv().encode()
            return self._csv
