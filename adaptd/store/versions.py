"""Versions and how good they are."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update

from adaptd.errors import StoreConflict
from adaptd.records import Accuracy, AccuracyKind, GateDecision, Int8Model, Split, Version, VersionState
from adaptd.store.repository import Repository, fields, only
from adaptd.store.tables import accuracies, events, images, versions


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A model about to become a version."""

    parent: int | None
    episode_id: int
    classes: tuple[str, ...]
    weights_path: str
    weights_sha256: str
    restores: int | None = None


class Versions(Repository):
    """All versions, numbered 1, 2, 3 … without gaps. The chain of promoted ones is linear.

    A number is never used twice, but for that of a version that was never published and was withdrawn.
    """

    def add(self, new: NewVersion) -> Version:
        """Record a candidate whose weights are safe on disk."""
        number = self.next_number()
        row = {name: getattr(new, name) for name in NewVersion.__slots__} | {"classes": list(new.classes)}
        row |= {"version": number, "state": VersionState.CANDIDATE, "created_at": self._clock()}
        self._connection.execute(insert(versions).values(row))
        return self.get(number)

    def get(self, version: int) -> Version:
        """By number."""
        row = self._connection.execute(select(versions).where(versions.c.version == version)).first()
        return _record(only(row, f"version {version}"))

    def find(self, version: int) -> Version | None:
        """By number."""
        row = self._connection.execute(select(versions).where(versions.c.version == version)).first()
        return None if row is None else _record(row)

    def list_all(self) -> tuple[Version, ...]:
        """Oldest first."""
        return tuple(_record(row) for row in self._connection.execute(select(versions).order_by(versions.c.version)))

    def find_latest(self, state: VersionState | None = None) -> Version | None:
        """The newest version, or the newest in a state."""
        statement = select(versions).order_by(versions.c.version.desc()).limit(1)
        if state is not None:
            statement = statement.where(versions.c.state == state)
        row = self._connection.execute(statement).first()
        return None if row is None else _record(row)

    def find_base(self) -> Version | None:
        """What the next episode begins with: the promoted version or, while none ever was, the newest."""
        return self.find_latest(VersionState.PROMOTED) or self.find_latest()

    def next_number(self) -> int:
        """The number that the next version will have."""
        last: int | None = self._connection.execute(select(func.max(versions.c.version))).scalar()
        return (last or 0) + 1

    def set_model(self, version: int, path: str, sha256: str) -> None:
        """Record the exported model whose file is safe on disk."""
        values = {"model_path": path, "model_sha256": sha256}
        self._connection.execute(update(versions).where(versions.c.version == version).values(values))

    def set_state(self, version: int, state: VersionState) -> None:
        """A version is promoted, rejected, or was replaced for good."""
        values: dict[str, Any] = {"state": state}
        if state is VersionState.PROMOTED:
            values["promoted_at"] = self._clock()
        self._connection.execute(update(versions).where(versions.c.version == version).values(values))

    def set_gate(self, version: int, gate: GateDecision, forced_because: str | None = None) -> None:
        """Record what the gate decided, and why a person overruled it."""
        values = {
            "gate_passed": gate.passed,
            "gate_reasons": list(gate.reasons),
            "gate_figures": gate.figures,
            "forced_because": forced_because,
        }
        self._connection.execute(update(versions).where(versions.c.version == version).values(values))

    def withdraw(self, version: int) -> None:
        """Forget the newest version, which was never published, and all that is known of it; its number is free again."""
        if self.get(version).state is not VersionState.REJECTED or version != self.next_number() - 1:
            raise StoreConflict(f"version {version} cannot be withdrawn: it is not the newest, or was not rejected")
        self._connection.execute(delete(accuracies).where(accuracies.c.version == version))
        self._connection.execute(update(events).where(events.c.version == version).values(version=None))
        self._connection.execute(delete(versions).where(versions.c.version == version))

    def set_int8(self, version: int, int8: Int8Model | None) -> None:
        """Record what came of its int8 model; None where none was wanted."""
        values = {
            "int8_passed": None if int8 is None else int8.passed,
            "int8_reasons": None if int8 is None else list(int8.reasons),
            "int8_sha256": None if int8 is None else int8.sha256,
        }
        self._connection.execute(update(versions).where(versions.c.version == version).values(values))


class Accuracies(Repository):
    """How good each version is on each domain.

    Measured and estimated entries stand side by side and never replace each other. A measured entry never changes:
    recording the same again is fine, another value raises StoreConflict. What was measured on labels that people gave is
    forgotten with a change of these labels, and measured anew. An estimate is replaced by a newer one of the same estimator.
    """

    def record(self, accuracy: Accuracy) -> None:
        """Remember an accuracy."""
        key = (
            accuracies.c.version == accuracy.version,
            accuracies.c.domain_id == accuracy.domain_id,
            accuracies.c.kind == accuracy.kind,
            accuracies.c.estimator == accuracy.estimator,
        )
        row = self._connection.execute(select(accuracies).where(*key)).first()
        if row is not None and accuracy.kind is AccuracyKind.MEASURED:
            if _accuracy(row) != accuracy:
                raise StoreConflict(f"version {accuracy.version} was measured on domain {accuracy.domain_id} with another result")
            return
        self._connection.execute(delete(accuracies).where(*key))
        values = {name: getattr(accuracy, name) for name in Accuracy.__slots__}
        self._connection.execute(insert(accuracies).values(values))

    def forget_measured(self, domain_id: int) -> None:
        """Forget what was measured on a domain by labels that people gave; what its own test set said stays for ever."""
        tests = select(images.c.id).where(images.c.domain_id == domain_id, images.c.split == Split.TEST).limit(1)
        if self._connection.execute(tests).first() is not None:
            raise StoreConflict(f"domain {domain_id} is measured on its own test set, and that never changes")
        mine = (accuracies.c.domain_id == domain_id, accuracies.c.kind == AccuracyKind.MEASURED)
        self._connection.execute(delete(accuracies).where(*mine))

    def list_all(self) -> tuple[Accuracy, ...]:
        """Everything known, by version and domain."""
        order = (accuracies.c.version, accuracies.c.domain_id, accuracies.c.kind, accuracies.c.estimator)
        return tuple(_accuracy(row) for row in self._connection.execute(select(accuracies).order_by(*order)))

    def list_for(self, version: int) -> tuple[Accuracy, ...]:
        """What is known of one version, by domain."""
        order = (accuracies.c.domain_id, accuracies.c.kind, accuracies.c.estimator)
        statement = select(accuracies).where(accuracies.c.version == version).order_by(*order)
        return tuple(_accuracy(row) for row in self._connection.execute(statement))

    def stamp(self) -> tuple[float, ...]:
        """Figures that change whenever an entry is added or replaced: cheap to ask for, where reading all of them is not."""
        sums = (func.count(), func.max(accuracies.c.version), func.sum(accuracies.c.value), func.sum(accuracies.c.n))
        return tuple(figure or 0 for figure in self._connection.execute(select(*sums).select_from(accuracies)).one())


def _record(row: object) -> Version:
    values = fields(row)  # type: ignore[arg-type]
    passed, reasons, figures = (values.pop(f"gate_{name}") for name in ("passed", "reasons", "figures"))
    gate = None if passed is None else GateDecision(passed, tuple(reasons), figures)
    usable, why, sha256 = (values.pop(f"int8_{name}") for name in ("passed", "reasons", "sha256"))
    int8 = None if usable is None else Int8Model(usable, tuple(why), sha256)
    more = {"state": VersionState(values["state"]), "classes": tuple(values["classes"]), "gate": gate, "int8": int8}
    return Version(**values | more)


_KINDS = {str(kind): kind for kind in AccuracyKind}


def _accuracy(row: Row[Any]) -> Accuracy:
    # There may be tens of thousands: by position, in the order of the table's columns, this takes a quarter of the time.
    values: tuple[Any, ...] = tuple(row)
    version, domain_id, kind, *rest = values
    return Accuracy(version, domain_id, _KINDS[kind], *rest)
