"""What all repositories share: a connection inside an open transaction, and the clock. Each kind has its own module."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Insert, Row

from adaptd.errors import StoreConflict


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
