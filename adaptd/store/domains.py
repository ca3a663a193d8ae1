"""Domains: names, order of adaptation, states."""

import difflib
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Select, and_, exists, func, insert, not_, select, update

from adaptd.errors import DomainUnknown
from adaptd.records import Domain, DomainState, EpisodeState, VersionState
from adaptd.store.repository import Repository, fields, in_chunks, only
from adaptd.store.tables import domains, episodes, versions


class Domains(Repository):
    """All domains, the source among them.

    A name belongs to one domain for ever. A position is given once, in the order in which first episodes commit, and is the
    domain's column in R; 0 is the source. Counts of images and quarantined files are kept by the repositories that add them.
    One that is done is read as rejected while the newest version that it led to is: a person may promote that one later.
    """

    def add(self, name: str, state: DomainState, position: int | None = None) -> Domain:
        """A new domain; StoreConflict where the name is taken."""
        now = self._clock()
        row = {"name": name, "state": state, "position": position, "created_at": now, "updated_at": now}
        return self.get(self._add(insert(domains).values(row)))

    def get(self, domain_id: int) -> Domain:
        """By id."""
        row = self._connection.execute(_select().where(domains.c.id == domain_id)).first()
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
        row = self._connection.execute(_select().where(domains.c.name == name)).first()
        return None if row is None else _record(row)

    def list_all(self) -> tuple[Domain, ...]:
        """In the order in which they came."""
        return tuple(_record(row) for row in self._connection.execute(_select().order_by(domains.c.id)))

    def list_some(self, domain_ids: Collection[int]) -> tuple[Domain, ...]:
        """Those of these that are there, in the order in which they came."""
        found: list[Domain] = []
        for chunk in in_chunks(sorted(domain_ids)):
            found += map(_record, self._connection.execute(_select().where(domains.c.id.in_(chunk)).order_by(domains.c.id)))
        return tuple(found)

    def set_state(self, domain_id: int, state: DomainState, reason: str | None = None) -> None:
        """Move a domain on; `reason` explains failed and skipped ones."""
        stored = DomainState.DONE if state is DomainState.REJECTED else state
        values = {"state": stored, "reason": reason, "updated_at": self._clock()}
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(values))

    def set_retry(self, domain_id: int, after: int, assignments: Sequence[str]) -> None:
        """What a person wants for the next episode, until there is one after the one with this id."""
        values = {"retry": {"after": after, "set": list(assignments)}}
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(values))

    def forget(self, domain_id: int, episode_id: int) -> None:
        """Its episodes up to this one are forgotten; its column of R stays."""
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(forgotten=episode_id, retry=None))

    def forgotten_stamp(self) -> int:
        """Changes whenever a domain is forgotten."""
        return int(self._connection.execute(select(func.sum(domains.c.forgotten + 1))).scalar() or 0)

    def replace_source(self, old: int, new: int, name: str) -> None:
        """Another domain is the source; the old one gets a name and a position of its own."""
        source = self.get(old)
        last: int = self._connection.execute(select(func.max(domains.c.position))).scalar() or 0
        self._connection.execute(update(domains).where(domains.c.id == old).values(name=name, position=last + 1))
        self._connection.execute(update(domains).where(domains.c.id == new).values(name=source.name, position=source.position))

    def place(self, domain_id: int) -> int:
        """Give a domain the next position unless it has one, and return it."""
        position = self.get(domain_id).position
        if position is None:
            last: int | None = self._connection.execute(select(func.max(domains.c.position))).scalar()
            position = 0 if last is None else last + 1
            self._connection.execute(update(domains).where(domains.c.id == domain_id).values(position=position))
        return position


def _select() -> Select[Any]:
    """Every column, and whether the newest committed episode led to rejected versions alone."""
    mine = (episodes.c.domain_id == domains.c.id, episodes.c.state == EpisodeState.DONE)
    newest = select(func.max(episodes.c.id)).where(*mine).correlate(domains).scalar_subquery()

    def led_to(is_rejected: Any) -> Any:
        return exists(select(versions.c.version).where(versions.c.episode_id == newest, is_rejected).correlate(domains))

    rejected, others = versions.c.state == VersionState.REJECTED, versions.c.state != VersionState.REJECTED
    is_rejected = and_(domains.c.state == DomainState.DONE, led_to(rejected), not_(led_to(others)))
    return select(domains, is_rejected.label("is_rejected"))


def _record(row: object) -> Domain:
    values = fields(row)  # type: ignore[arg-type]
    state = DomainState.REJECTED if values.pop("is_rejected") else DomainState(values["state"])
    return Domain(**values | {"state": state})
