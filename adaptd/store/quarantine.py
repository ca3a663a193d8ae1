"""Quarantine: files that cannot be used, with their reasons."""

from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, delete, func, insert, select, update

from adaptd.records import NewQuarantined, Quarantined
from adaptd.store.repository import Repository, fields
from adaptd.store.tables import domains, quarantine


class Quarantine(Repository):
    """Files that cannot be used: each has a reason, and none is ever deleted by adding another."""

    def add(
        self, domain_id: int, name: str, reason: str, detail: str, path: str | None = None, drop_id: int | None = None
    ) -> int:
        """Put a file into quarantine and return the row's id."""
        row = {"domain_id": domain_id, "drop_id": drop_id, "name": name, "reason": reason, "detail": detail, "path": path}
        key = self._add(insert(quarantine).values(row | {"created_at": self._clock()}))
        count = domains.c.quarantined + 1
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(quarantined=count))
        return key

    def add_many(self, domain_id: int, files: Sequence[NewQuarantined]) -> None:
        """Put many files of a domain into quarantine."""
        if not files:
            return
        common = {"domain_id": domain_id, "created_at": self._clock()}
        self._connection.execute(insert(quarantine), [common | {name: getattr(f, name) for name in f.__slots__} for f in files])
        count = domains.c.quarantined + len(files)
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(quarantined=count))

    def list_all(self, domain_id: int | None = None) -> tuple[Quarantined, ...]:
        """All quarantined files, or those of one domain."""
        statement = select(quarantine).order_by(quarantine.c.id)
        if domain_id is not None:
            statement = statement.where(quarantine.c.domain_id == domain_id)
        return tuple(Quarantined(**fields(row)) for row in self._connection.execute(statement))

    def list_latest(self, domain_id: int, count: int) -> tuple[Quarantined, ...]:
        """A domain's files that were quarantined last, newest first."""
        statement = select(quarantine).where(quarantine.c.domain_id == domain_id).order_by(quarantine.c.id.desc()).limit(count)
        return tuple(Quarantined(**fields(row)) for row in self._connection.execute(statement))

    def counts(self, domain_id: int | None = None) -> dict[str, int]:
        """How many files are quarantined, by reason, in all or of one domain."""
        statement = select(quarantine.c.reason, func.count()).group_by(quarantine.c.reason)
        if domain_id is not None:
            statement = statement.where(quarantine.c.domain_id == domain_id)
        return dict(self._connection.execute(statement).all())

    def list_unmoved(self) -> tuple[Quarantined, ...]:
        """Files that still lie in the drop they came with."""
        statement = select(quarantine).where(quarantine.c.drop_id.is_not(None), quarantine.c.path.is_(None))
        return tuple(Quarantined(**fields(row)) for row in self._connection.execute(statement.order_by(quarantine.c.id)))

    def move(self, key: int, path: str) -> None:
        """The file lies elsewhere from now on."""
        self._connection.execute(update(quarantine).where(quarantine.c.id == key).values(path=path))

    def move_many(self, paths: Mapping[int, str]) -> None:
        """The same for many files, by key."""
        if paths:
            statement = update(quarantine).where(quarantine.c.id == bindparam("key")).values(path=bindparam("place"))
            self._connection.execute(statement, [{"key": key, "place": path} for key, path in paths.items()])

    def join(self, drop_ids: Sequence[int], domain_id: int) -> None:
        """The files of these drops are another domain's from now on, as the drops are; they stay where they lie."""
        mine = quarantine.c.drop_id.in_(drop_ids)
        before = self._connection.execute(
            select(quarantine.c.domain_id, func.count()).where(mine).group_by(quarantine.c.domain_id)
        )
        for old, count in before.all():
            for key, change in ((old, -count), (domain_id, count)):
                values = {"quarantined": domains.c.quarantined + change}
                self._connection.execute(update(domains).where(domains.c.id == key).values(values))
        self._connection.execute(update(quarantine).where(mine).values(domain_id=domain_id))

    def remove(self, key: int) -> None:
        """The file is in quarantine no more: it was given back, or deleted."""
        domain_id = self._connection.execute(select(quarantine.c.domain_id).where(quarantine.c.id == key)).scalar()
        self._connection.execute(delete(quarantine).where(quarantine.c.id == key))
        count = domains.c.quarantined - 1
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(quarantined=count))
