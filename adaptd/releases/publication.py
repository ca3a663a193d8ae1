"""A model becomes a version, step by step: judged by the gate, exported, proven, and recorded. Showing it is `repositories`'.

The order is what makes it safe: the files are whole in the staging folder, then the store says so, then one rename shows them.
"""

from dataclasses import dataclass
from pathlib import Path

from adaptd.errors import ExportFailed, ParityFailed, PublishError, RepositoryConflict
from adaptd.evaluation.checks import Checks
from adaptd.evaluation.predictions import Predictions
from adaptd.files import hash_file, write_file
from adaptd.project.layers import Project
from adaptd.publishing.card import CARD_FILE, Card, Facts, GateOutcome, Parity, software_versions
from adaptd.publishing.comparisons import compare
from adaptd.publishing.export import Exporter, export_model, prove_model
from adaptd.publishing.gate import judge
from adaptd.publishing.triton import MODEL_FILE
from adaptd.records import GateDecision, Int8Model, Version, VersionState
from adaptd.releases.facts import Candidate, read_best, read_facts
from adaptd.releases.images import ImageSets
from adaptd.releases.int8 import stage_int8
from adaptd.releases.models import VersionModels
from adaptd.releases.repositories import int8_repository_of, repository_of
from adaptd.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Judged:
    """A model that the gate is asked about.

    Args:
        number: of the version it is or would be.
        classes: their names.
        checks: second opinions; None where a person wants it, whom no estimate overrules.
    """

    number: int
    classes: tuple[str, ...]
    checks: Checks | None


@dataclass(frozen=True, slots=True)
class Exported:
    """A candidate's ONNX file in the staging folder, unproven. There are no facts where the candidate was refused."""

    gate: GateOutcome
    facts: Facts | None = None
    exporter: Exporter = Exporter.TRACE


@dataclass(frozen=True, slots=True)
class Staged:
    """A version in the staging folder; `sha256` is None where it was refused. `int8` tells what came of that, if wanted."""

    gate: GateOutcome
    sha256: str | None
    int8: Int8Model | None = None
    forced_because: str | None = None


class Publisher:
    """Takes candidates of one project through gate and proof into its staging folder.

    Args:
        project: with the settings that count for these candidates.
        store: its store.
        images: what models are judged on.
        models: the models of its versions.
    """

    def __init__(self, project: Project, store: Store, images: ImageSets, models: VersionModels) -> None:
        self._settings, self._project, self._store = project.settings, project, store
        self._images, self._models = images, models
        self._repository = repository_of(project)

    def judge(self, promoted: Version | None, predictions: Predictions, candidate: Judged) -> GateOutcome:
        """The gate's decision on a model by its predictions, against the promoted version."""
        before = None if promoted is None else self._models.predict(promoted)
        with self._store.reading() as tx:
            best = read_best(tx)
        settings = self._settings.gate if candidate.checks else self._settings.gate.model_copy(update={"estimates": "ignore"})
        checks = candidate.checks if settings.estimates == "hold" else None
        comparisons = compare(self._images, before, predictions, checks)
        return judge(comparisons, settings, candidate.classes, best, candidate.number)

    def export(self, candidate: Candidate, gate: GateOutcome) -> Exported:
        """Write the ONNX file of a candidate that passed, or that a person wants all the same."""
        if not gate.passed and candidate.forced_because is None:
            return Exported(gate)
        path = self._repository.prepare(candidate.number) / MODEL_FILE
        with self._store.reading() as tx:
            facts = read_facts(tx, candidate, self._repository.name, self._images.preprocessing)
        try:
            return Exported(gate, facts, export_model(candidate.model, path, self._settings.export.opset, facts))
        except ExportFailed as problem:
            return Exported(self._refuse(candidate, gate, problem))

    def prove(self, candidate: Candidate, exported: Exported) -> Staged:
        """Seal a version that answers as its model does; one that cannot be proven or shown is refused with the reason."""
        facts, gate = exported.facts, exported.gate
        if facts is None:
            return Staged(gate, None)
        folder = self._repository.prepared(candidate.number)
        try:
            parity = self._check_parity(candidate, exported, folder / MODEL_FILE, facts)
            digest = hash_file(folder / MODEL_FILE)
            known = facts.model_dump() | {"gate": gate, "forced_because": candidate.forced_because, "parity": parity}
            card = Card(**known, model_sha256=digest, versions=software_versions())
            self._repository.check_place(card)
        except (ExportFailed, ParityFailed, RepositoryConflict) as problem:
            return Staged(self._refuse(candidate, gate, problem), None)
        write_file(folder / CARD_FILE, card.to_text().encode())
        self._repository.seal(candidate.number)
        wants_int8 = self._settings.export.quantize
        int8 = stage_int8(self._project, self._images, facts, folder / MODEL_FILE) if wants_int8 else None
        return Staged(gate, digest, int8, candidate.forced_because)

    def discard(self, version: int) -> None:
        """Throw away what was put into the staging folder."""
        for repository in (self._repository, int8_repository_of(self._project)):
            repository.discard(version)

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

    def _check_parity(self, candidate: Candidate, exported: Exported, path: Path, facts: Facts) -> Parity:
        samples = {domain.name: self._images.open_sample(domain) for domain in self._images.domains}
        return prove_model(candidate.model, path, self._settings.export, facts, samples, exported.exporter)

    def _refuse(self, candidate: Candidate, gate: GateOutcome, problem: PublishError) -> GateOutcome:
        self._repository.discard(candidate.number)
        return GateOutcome(passed=False, reasons=(str(problem), *gate.reasons), figures=gate.figures)
