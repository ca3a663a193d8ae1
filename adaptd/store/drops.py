"""Drops: folders that came through the inbox. And pauses: for which domains nothing is to be trained for now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, insert, or_, select, update

from adaptd.records import DropRecord, Pause
from adaptd.store.repository import Repository, fields, only
from adaptd.store.tables import drops, pauses


@dataclass(frozen=True, slots=True)
class NewDrop:
    """A folder about to be claimed."""

    domain_id: int
    number: int
    path: str
    origin: str
    fingerprint: str
    files: int
    size_bytes: int


class Drops(Repository):
    """The drops of all domains, numbered 1, 2, 3 … in each.

    A drop waits (delivery None) until an import finds out what is in it. A delivery may be of several drops.
    """

    def add(self, new: NewDrop) -> DropRecord:
        """A folder that is about to be ours: the row comes first, so that a folder without one is never found."""
        row = {name: getattr(new, name) for name in NewDrop.__slots__}
        return self.get(self._add(insert(drops).values(row | {"claimed_at": self._clock()})))

    def remove(self, drop_id: int) -> None:
        """It did not come after all."""
        self._connection.execute(delete(drops).where(drops.c.id == drop_id))

    def next_number(self, domain_id: int) -> int:
        """The number of a domain's next drop."""
        statement = select(func.max(drops.c.number)).where(drops.c.domain_id == domain_id)
        return (self._connection.execute(statement).scalar() or 0) + 1

    def get(self, drop_id: int) -> DropRecord:
        """By id."""
        row = self._connection.execute(select(drops).where(drops.c.id == drop_id)).first()
        return DropRecord(**fields(only(row, f"drop with id {drop_id}")))

    def list_all(self, domain_id: int | None = None) -> tuple[DropRecord, ...]:
        """All drops, or those of one domain, oldest first."""
        statement = select(drops).order_by(drops.c.id)
        if domain_id is not None:
            statement = statement.where(drops.c.domain_id == domain_id)
        return tuple(DropRecord(**fields(row)) for row in self._connection.execute(statement))

    def list_waiting(self, domain_id: int | None = None) -> tuple[DropRecord, ...]:
        """Those that no episode is queued for, oldest first."""
        statement = select(drops).where(drops.c.delivery.is_(None)).order_by(drops.c.id)
        if domain_id is not None:
            statement = statement.where(drops.c.domain_id == domain_id)
        return tuple(DropRecord(**fields(row)) for row in self._connection.execute(statement))

    def has_path(self, path: str) -> bool:
        """Whether a drop of any domain lies there, or did: one that joined another domain stays where it is."""
        return self._connection.execute(select(drops.c.id).where(drops.c.path == path)).first() is not None

    def join(self, drop_id: int, domain_id: int) -> None:
        """A drop is another domain's from now on, and waits there as if it had just come; its folder stays where it is."""
        values = {
            "domain_id": domain_id,
            "number": self.next_number(domain_id),
            "delivery": None,
            "taken": None,
            "taken_at": None,
        }
        counts = {"accepted": 0, "duplicates": 0, "crashes": 0}
        self._connection.execute(update(drops).where(drops.c.id == drop_id).values(values | counts))

    def take_in(self, drop_ids: Sequence[int], delivery: int) -> None:
        """These drops' images are in a delivery from now on; 0: they brought nothing new."""
        self._connection.execute(update(drops).where(drops.c.id.in_(drop_ids)).values(delivery=delivery))

    def count(self, drop_id: int, accepted: int, duplicates: int) -> None:
        """What an import found in a drop."""
        self._connection.execute(update(drops).where(drops.c.id == drop_id).values(accepted=accepted, duplicates=duplicates))

    def set_taken(self, drop_id: int, fingerprint: str, at: datetime | None) -> None:
        """What an import saw of a drop, and when. All of it is on the disk."""
        values = {"taken": fingerprint, "taken_at": at, "unsynced": False}
        self._connection.execute(update(drops).where(drops.c.id == drop_id).values(values))

    def mark_unsynced(self, drop_ids: Sequence[int]) -> None:
        """Their files are about to be brought to the disk: until `set_taken` it is not known whether they are there."""
        self._connection.execute(update(drops).where(drops.c.id.in_(drop_ids)).values(unsynced=True))

    def lose_images(self, drop_id: int, count: int) -> None:
        """Some of its accepted images' files hold something else from now on."""
        self._connection.execute(update(drops).where(drops.c.id == drop_id).values(accepted=drops.c.accepted - count))

    def give_back(self, domain_id: int, delivery: int) -> int:
        """Let the drops of a delivery that nothing was learned from wait again; how many wait. Deaths so far do not count."""
        mine = (drops.c.domain_id == domain_id, or_(drops.c.delivery == delivery, drops.c.delivery.is_(None)))
        return self._connection.execute(update(drops).where(*mine).values(delivery=None, crashes=0)).rowcount

    def give_back_all(self, domain_id: int) -> int:
        """Let all drops of a domain wait whose files are kept, whatever came of them; how many wait."""
        mine = (drops.c.domain_id == domain_id, drops.c.files > 0)
        return self._connection.execute(update(drops).where(*mine).values(delivery=None, crashes=0)).rowcount

    def count_crash(self, domain_id: int) -> int:
        """An import of the domain's waiting drops died: how often in a row."""
        mine = (drops.c.domain_id == domain_id, drops.c.delivery.is_(None))
        self._connection.execute(update(drops).where(*mine).values(crashes=drops.c.crashes + 1))
        return self._connection.execute(select(func.max(drops.c.crashes)).where(*mine)).scalar() or 0

    def take_out(self, drop_id: int) -> None:
        """One of its files is not kept any more: it was given back, or deleted."""
        self._connection.execute(update(drops).where(drops.c.id == drop_id, drops.c.files > 0).values(files=drops.c.files - 1))

    def forget_originals(self, drop_id: int, delivery: int) -> None:
        """No file of it is kept from now on; `delivery` says what came of it, 0 where nothing did."""
        self._connection.execute(update(drops).where(drops.c.id == drop_id).values(files=0, size_bytes=0, delivery=delivery))


class Pauses(Repository):
    """What is not to be trained for now: domains by name, or everything."""

    def add(self, scope: str, reason: str) -> None:
        """Pause a domain, or everything; the reason of an earlier pause is replaced."""
        self.remove(scope)
        self._connection.execute(insert(pauses).values(scope=scope, reason=reason, at=self._clock()))

    def remove(self, scope: str) -> bool:
        """Let it go on; whether it was paused."""
        return bool(self._connection.execute(delete(pauses).where(pauses.c.scope == scope)).rowcount)

    def list_all(self) -> tuple[Pause, ...]:
        """All of them, oldest first."""
        return tuple(Pause(**fields(row)) for row in self._connection.execute(select(pauses).order_by(pauses.c.at)))
