"""Domains: names, order of adaptation, states."""

import difflib

from sqlalchemy import func, insert, select, update

from adaptd.errors import DomainUnknown
from adaptd.records import Domain, DomainState
from adaptd.store.repository import Repository, fields, only
from adaptd.store.tables import domains


class Domains(Repository):
    """All domains, the source among them.

    A name belongs to one domain for ever. A position is given once, in the order in which first episodes commit, and is the
    domain's column in R; 0 is the source. Counts of images and quarantined files are kept by the repositories that add them.
    """

    def add(self, name: str, state: DomainState, position: int | None = None) -> Domain:
        """A new domain; StoreConflict where the name is taken."""
        now = self._clock()
        row = {"name": name, "state": state, "position": position, "created_at": now, "updated_at": now}
        return self.get(self._add(insert(domains).values(row)))

    def get(self, domain_id: int) -> Domain:
        """By id."""
        row = self._connection.execute(select(domains).where(domains.c.id == domain_id)).first()
        return _record(only(row, f"domain with id {domain_id}"))

    def get_named(self, name: str) -> Domain:
        """By name; DomainUnknown, with the nearest name, where there is none."""
        domain = self.find(name)
        if domain is None:
            names = [known.name for known in self.list_all()]
            near = difflib.get_close_matches(name, names, 1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}" if names else "none has come yet"
            raise DomainUnknown(f"there is no domain {name!r}: {hint}")
        return domain

    def find(self, name: str) -> Domain | None:
        """By name."""
        row = self._connection.execute(select(domains).where(domains.c.name == name)).first()
        return None if row is None else _record(row)

    def list_all(self) -> tuple[Domain, ...]:
        """In the order in which they came."""
        return tuple(_record(row) for row in self._connection.execute(select(domains).order_by(domains.c.id)))

    def set_state(self, domain_id: int, state: DomainState, reason: str | None = None) -> None:
        """Move a domain on; `reason` explains failed and skipped ones."""
        values = {"state": state, "reason": reason, "updated_at": self._clock()}
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(values))

    def forget(self, domain_id: int, episode_id: int) -> None:
        """Its episodes up to this one are forgotten; its column of R stays."""
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(forgotten=episode_id, retry=None))

    def forgotten_stamp(self) -> int:
        """Changes whenever a domain is forgotten."""
        return int(self._connection.execute(select(func.sum(domains.c.forgotten + 1))).scalar() or 0)

    def place(self, domain_id: int) -> int:
        """Give a domain the next position unless it has one, and return it."""
        position = self.get(domain_id).position
        if position is None:
            last: int | None = self._connection.execute(select(func.max(domains.c.position))).scalar()
            position = 0 if last is None else last + 1
            self._connection.execute(update(domains).where(domains.c.id == domain_id).values(position=position))
        return position


def _record(row: object) -> Domain:
    values = fields(row)  # type: ignore[arg-type]
    return Domain(**values | {"state": DomainState(values["state"])})
