"""Memories: which images of past domains are kept, with their pseudo-labels."""

from collections.abc import Sequence

from sqlalchemy import delete, func, insert, select

from adaptd.records import MemoryItem
from adaptd.store.repository import Repository, fields
from adaptd.store.tables import memories


class Memories(Repository):
    """The episodic memories, keyed by image id.

    A domain's memory is replaced as a whole, in the transaction that commits its episode. Pixels lie on disk under the same ids.
    """

    def replace(self, domain_id: int, items: Sequence[MemoryItem]) -> None:
        """Make `items` the memory of a domain."""
        self._connection.execute(delete(memories).where(memories.c.domain_id == domain_id))
        if items:
            rows = [{name: getattr(item, name) for name in MemoryItem.__slots__} for item in items]
            self._connection.execute(insert(memories), rows)

    def list_for(self, domain_id: int) -> tuple[MemoryItem, ...]:
        """A domain's memory, most confident first."""
        order = (memories.c.confidence.desc(), memories.c.image_id)
        statement = select(memories).where(memories.c.domain_id == domain_id).order_by(*order)
        return tuple(MemoryItem(**fields(row)) for row in self._connection.execute(statement))

    def counts(self) -> dict[int, int]:
        """How many images each domain's memory holds, by domain id."""
        statement = select(memories.c.domain_id, func.count()).group_by(memories.c.domain_id)
        return dict(self._connection.execute(statement).all())
