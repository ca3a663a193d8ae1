"""R kept in memory for the daemon's pages and metrics, which ask often. Reading it from the store is in `status`."""

import threading

from adaptd.evaluation.matrix import Matrix
from adaptd.observe.status import read_matrix
from adaptd.store import Transaction


class MatrixKeeper:
    """R, read again only when an accuracy was added or replaced: tens of thousands take half a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamp: tuple[float, ...] | None = None
        self._matrix = Matrix((), (), ())

    def read(self, tx: Transaction) -> Matrix:
        """As `read_matrix`."""
        stamp = tx.accuracies.stamp()
        with self._lock:
            if stamp != self._stamp:
                self._matrix, self._stamp = read_matrix(tx), stamp
            return self._matrix
