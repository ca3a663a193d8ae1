"""Events: the story of a project, for people."""

from typing import Any

from sqlalchemy import insert, select

from adaptd.records import Event, EventKind
from adaptd.store.repository import Repository, fields
from adaptd.store.tables import events


class Events(Repository):
    """An append-only list of what happened. Nothing reads it to decide anything."""

    def add(
        self,
        kind: EventKind,
        message: str,
        *,
        domain_id: int | None = None,
        episode_id: int | None = None,
        version: int | None = None,
        **details: Any,
    ) -> int:
        """Write down that something happened; `details` is JSON."""
        row = {"at": self._clock(), "kind": kind, "message": message, "details": details}
        row |= {"domain_id": domain_id, "episode_id": episode_id, "version": version}
        return self._add(insert(events).values(row))

    def list_latest(self, count: int, domain_id: int | None = None, before: int | None = None) -> tuple[Event, ...]:
        """The newest events, of one domain or of all, newest first; with `before`, those older than the event with that id."""
        statement = select(events).order_by(events.c.id.desc()).limit(count)
        if before is not None:
            statement = statement.where(events.c.id < before)
        if domain_id is not None:
            statement = statement.where(events.c.domain_id == domain_id)
        return tuple(Event(**fields(row)) for row in self._connection.execute(statement))
