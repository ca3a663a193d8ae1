"""A model becomes a version: judged by the gate, exported, proven, committed, published. Torch is needed for all but the last.

The order is what makes it safe: the files are whole in the staging folder, then the store says so, then one rename shows them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from adaptd.errors import ExportFailed, ParityFailed, RepositoryConflict
from adaptd.files import hash_file, write_file
from adaptd.learning.backbones import Classifier
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.publishing.card import CARD_FILE, Ancestor, Card, Facts, GateOutcome, RowEntry, software_versions
from adaptd.publishing.export import export_proven
from adaptd.publishing.gate import Best, judge
from adaptd.publishing.triton import MODEL_FILE
from adaptd.records import Accuracy, Episode, GateDecision, Int8Model, Version, VersionState
from adaptd.releases.int8 import stage_int8
from adaptd.releases.lineage import find_best, find_way
from adaptd.releases.materials import Materials
from adaptd.releases.predictions import Answers, ask, compare
from adaptd.releases.repositories import repository_of
from adaptd.releases.weights import load_version
from adaptd.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may become a version.

    Args:
        number: of the version it would be.
        model: the classifier.
        weights_sha256: of its file.
        episode: that made it, with its number t.
        number_of_episode: t.
        parent: the promoted version it follows.
        row: its accuracies.
        restores: the version whose weights these are, where an old one is brought back.
        forced_because: why a person overruled the gate.
    """

    number: int
    model: Classifier
    weights_sha256: str
    episode: Episode
    number_of_episode: int
    parent: Version | None
    row: Sequence[Accuracy]
    restores: int | None = None
    forced_because: str | None = None


@dataclass(frozen=True, slots=True)
class Staged:
    """A version in the staging folder; `sha256` is None where it was refused. `int8` tells what came of that, if wanted."""

    gate: GateOutcome
    sha256: str | None
    int8: Int8Model | None = None
    forced_because: str | None = None


class Publisher:
    """Judges candidates of one project and puts them into its staging folder."""

    def __init__(self, project: Project, store: Store, materials: Materials) -> None:
        self._project, self._store, self._materials = project, store, materials
        self._layout = Layout(project.state)
        self._repository = repository_of(project)

    def judge(self, promoted: Version | None, answers: Answers, classes: Sequence[str]) -> GateOutcome:
        """The gate's decision on a model by its answers, against the promoted version."""
        settings = self._project.settings
        before = None
        if promoted is not None:
            model = load_version(self._layout, promoted)
            before = ask(model, self._materials, settings.evaluation.batch_size)
        return judge(compare(self._materials, before, answers), settings.gate, classes, self._find_best())

    def stage(self, candidate: Candidate, gate: GateOutcome) -> Staged:
        """Export and prove a candidate that passed; one that cannot be proven is refused with the reason."""
        if not gate.passed and candidate.forced_because is None:
            return Staged(gate, None)
        folder = self._repository.prepare(candidate.number)
        facts = self._facts(candidate)
        try:
            parity = export_proven(
                candidate.model, folder / MODEL_FILE, self._project.settings.export, facts, self._materials.open_samples()
            )
            digest = hash_file(folder / MODEL_FILE)
            known = facts.model_dump() | {"gate": gate, "forced_because": candidate.forced_because, "parity": parity}
            card = Card(**known, model_sha256=digest, versions=software_versions())
            self._repository.check_place(card)
        except (ExportFailed, ParityFailed, RepositoryConflict) as problem:
            self._repository.discard(candidate.number)
            refused = GateOutcome(passed=False, reasons=(str(problem), *gate.reasons), figures=gate.figures)
            return Staged(refused, None)
        write_file(folder / CARD_FILE, card.to_text().encode())
        self._repository.seal(candidate.number)
        wants_int8 = self._project.settings.export.quantize
        int8 = stage_int8(self._project, self._materials, facts, folder / MODEL_FILE) if wants_int8 else None
        return Staged(gate, digest, int8, candidate.forced_because)

    def record(self, tx: Transaction, version: int, staged: Staged) -> None:
        """What was decided becomes the version's state, in the transaction that makes it count."""
        gate = GateDecision(staged.gate.passed, staged.gate.reasons, staged.gate.model_dump(mode="json")["figures"])
        tx.versions.set_gate(version, gate, staged.forced_because)
        tx.versions.set_int8(version, staged.int8)
        if staged.sha256 is None:
            tx.versions.set_state(version, VersionState.REJECTED)
            return
        tx.versions.set_model(version, f"{self._repository.name}/{version}", staged.sha256)
        tx.versions.set_state(version, VersionState.PROMOTED)

    def _find_best(self) -> dict[str, Best]:
        """By domain name, the best that was measured on the way to the promoted version."""
        with self._store.reading() as tx:
            names = {domain.id: domain.name for domain in tx.domains.list_all()}
            found = find_best(find_way(tx.versions.list_all()), tx.accuracies.list_all())
        return {names[key]: Best(accuracy.version, accuracy.value, accuracy.n) for key, accuracy in found.items()}

    def _facts(self, candidate: Candidate) -> Facts:
        with self._store.reading() as tx:
            names = {domain.id: domain.name for domain in tx.domains.list_all()}
            lineage = _lineage(tx, candidate.parent, names)
        model = candidate.model.settings
        return Facts(
            model=self._repository.name,
            version=candidate.number,
            parent=candidate.parent.version if candidate.parent else None,
            restores=candidate.restores,
            episode=candidate.number_of_episode,
            domain=names[candidate.episode.domain_id],
            created_at=datetime.now(UTC),
            backbone=model.backbone,
            classes=model.classes,
            preprocessing=self._materials.preprocessing,
            lineage=lineage,
            row=tuple(_entry(accuracy, names) for accuracy in candidate.row),
            weights_sha256=candidate.weights_sha256,
            config_hash=candidate.episode.config_hash,
        )


def _lineage(tx: Transaction, parent: Version | None, names: dict[int, str]) -> tuple[Ancestor, ...]:
    """The way from the source to the parent."""
    way: list[Ancestor] = []
    while parent is not None:
        episode = tx.episodes.get(parent.episode_id)
        way.append(Ancestor(version=parent.version, episode=episode.number or 0, domain=names[episode.domain_id]))
        parent = None if parent.parent is None else tx.versions.get(parent.parent)
    return tuple(reversed(way))


def _entry(accuracy: Accuracy, names: dict[int, str]) -> RowEntry:
    return RowEntry(
        domain=names[accuracy.domain_id],
        value=accuracy.value,
        kind=accuracy.kind,
        n=accuracy.n,
        low=accuracy.low,
        high=accuracy.high,
        estimator=accuracy.estimator,
    )
