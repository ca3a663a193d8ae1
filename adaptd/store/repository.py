"""What all repositories share: a connection inside an open transaction, and the clock. Each kind has its own module."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Insert, Row

from adaptd.errors import StoreConflict

T = TypeVar("T")

CHUNK = 1000
"""Rows in one statement: well under every driver's limit of parameters."""


class Repository:
    """Reads and writes one kind of record within the transaction that made it.

    `find_x` returns None where there is nothing, `get_x` raises StoreConflict, `list_x` returns a tuple.
    """

    def __init__(self, connection: Connection, clock: Callable[[], datetime]) -> None:
        self._connection = connection
        self._clock = clock

    def _add(self, statement: Insert) -> int:
        """Run an INSERT of one row and return its key."""
        key = self._connection.execute(statement).inserted_primary_key
        assert key is not None
        return int(key[0])


def fields(row: Row[Any]) -> dict[str, Any]:
    """A row as keyword arguments of its record."""
    return dict(row._mapping)  # noqa: SLF001 (SQLAlchemy's documented name for it)


def only(row: Row[Any] | None, what: str) -> Row[Any]:
    """The row, or an error that names what is missing."""
    if row is None:
        raise StoreConflict(f"there is no {what}")
    return row


def in_chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """As many as go into one statement."""
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
