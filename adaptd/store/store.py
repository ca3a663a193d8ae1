"""The store: opens a database of the right revision and hands out transactions."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Self

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from adaptd.store.curves import Curves
from adaptd.store.domains import Domains
from adaptd.store.drops import Drops, Pauses
from adaptd.store.engine import Address, describe, is_busy, open_engine, parse_url, translated
from adaptd.store.episodes import Checkpoints, Episodes
from adaptd.store.events import Events
from adaptd.store.images import Images
from adaptd.store.labels import Labels
from adaptd.store.memories import Memories
from adaptd.store.quarantine import Quarantine
from adaptd.store.schema import check_schema
from adaptd.store.versions import Accuracies, Versions


def utc_now() -> datetime:
    """The wall clock, for timestamps only; leases use the monotonic clock."""
    return datetime.now(UTC)


class Transaction:
    """One view of everything, or one change of everything: all repositories on the same connection."""

    def __init__(self, connection: Connection, clock: Callable[[], datetime]) -> None:
        self.domains = Domains(connection, clock)
        self.drops = Drops(connection, clock)
        self.pauses = Pauses(connection, clock)
        self.images = Images(connection, clock)
        self.quarantine = Quarantine(connection, clock)
        self.episodes = Episodes(connection, clock)
        self.checkpoints = Checkpoints(connection, clock)
        self.curves = Curves(connection, clock)
        self.memories = Memories(connection, clock)
        self.labels = Labels(connection, clock)
        self.versions = Versions(connection, clock)
        self.accuracies = Accuracies(connection, clock)
        self.events = Events(connection, clock)


class Store:
    """An open database.

    `reading()` gives one consistent view and refuses writes. `writing()` commits at the end of its block, or changes nothing
    where the block raises. Keep both short, never across a training step: on SQLite there is one writer at a time, and others
    wait for it up to the busy timeout, then raise StoreBusy.
    """

    def __init__(self, address: Address, busy_timeout_seconds: float = 30, clock: Callable[[], datetime] = utc_now) -> None:
        url = parse_url(address)
        self._where = describe(url)
        self._clock = clock
        self._readers = open_engine(url, busy_timeout_seconds, writes=False)
        self._writer = open_engine(url, busy_timeout_seconds, writes=True)
        check_schema(self._readers, self._where)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A consistent view."""
        with translated(self._where), self._readers.begin() as connection:
            yield Transaction(connection, self._clock)

    @contextmanager
    def writing(self, patience_seconds: float = 0) -> Iterator[Transaction]:
        """A change, all of it or nothing.

        Args:
            patience_seconds: keep asking for this long, beyond the busy timeout, where another writer does not let go.
        """
        with translated(self._where), ExitStack() as stack:
            yield Transaction(self._begin(stack, time.monotonic() + patience_seconds), self._clock)

    def _begin(self, stack: ExitStack, deadline: float) -> Connection:
        while True:
            try:
                return stack.enter_context(self._writer.begin())
            except OperationalError as problem:
                if not is_busy(problem) or time.monotonic() >= deadline:
                    raise

    def close(self) -> None:
        """Give the connections back."""
        self._readers.dispose()
        self._writer.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
