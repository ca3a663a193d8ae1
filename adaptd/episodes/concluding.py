"""What a trained model comes to: its row of R, the gate's word, a version, a memory, all in one commit. Training is over."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from adaptd.episodes.insights import write_insight
from adaptd.episodes.leases import PATIENCE_SECONDS
from adaptd.episodes.materials import Materials
from adaptd.episodes.memory import write_memory
from adaptd.episodes.novelty import find_known
from adaptd.errors import Interrupted, NothingToLearn
from adaptd.evaluation.checkfiles import CheckFiles
from adaptd.evaluation.checks import Checks
from adaptd.evaluation.predictions import Predictions, count_images, predict_domains
from adaptd.evaluation.rows import RowMaker
from adaptd.learning.backbones import Classifier
from adaptd.learning.below import Below
from adaptd.learning.devices import resolve_device
from adaptd.learning.reports import Outcome
from adaptd.learning.weights import find_trained
from adaptd.library.memories import MEMORY_IMAGES
from adaptd.pace import Seen, ignore
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.lock import publishing_alone
from adaptd.publishing.card import GateOutcome
from adaptd.records import NEW_SOURCE, Accuracy, AccuracyKind, DomainState, EventKind, Lease, MemoryItem, Version, VersionState
from adaptd.releases.facts import Candidate
from adaptd.releases.forgetting import sweep_forgotten
from adaptd.releases.given import TAUGHT, read_given
from adaptd.releases.models import VersionModels
from adaptd.releases.publication import Judged, Publisher, Staged
from adaptd.releases.repositories import publish
from adaptd.releases.succession import FIRST, succeed
from adaptd.releases.weights import write_weights
from adaptd.store import NewVersion, Store, Transaction


@dataclass(frozen=True, slots=True)
class Finished:
    """A committed episode."""

    number: int
    version: Version
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A trained model whose weights are on disk.

    Args:
        model: the classifier.
        weights_sha256: of its file.
        predictions: its own, on every domain.
        earlier: what the versions before it reach on the new domain.
    """

    model: Classifier
    weights_sha256: str
    predictions: Predictions
    earlier: tuple[Accuracy, ...]


class Conclusion:
    """The end of one episode.

    Args:
        project: with the settings of the episode.
        store: its store.
        materials: what the episode read.
        lease: under which it runs.
        enter: called before each phase, with the number of images that are looked at in it; may raise to stop there.
        seen: told how many were.
        below: activations that need not be made again.
    """

    def __init__(
        self,
        project: Project,
        store: Store,
        materials: Materials,
        lease: Lease,
        enter: Callable[[str, int], None],
        seen: Seen = ignore,
        below: Below | None = None,
    ) -> None:
        self._project, self._store, self.materials, self._lease, self._enter = project, store, materials, lease, enter
        self._settings, self._episode, self._images = project.settings, materials.episode, materials.images
        self._layout = Layout(project.state)
        batch_size, device = self._settings.evaluation.batch_size, resolve_device(self._settings.training.device)
        self._models = VersionModels(self._layout, self._images, batch_size, seen, device, below)
        self._seen, self._below = seen, below
        self._publisher = Publisher(project, store, self._images, self._models)
        evaluation = self._settings.evaluation
        files = CheckFiles(self._layout.checks)
        model = self._settings.model
        trained = find_trained(model, project.root)
        self._checks = Checks(self._images, len(model.classes), evaluation.batch_size, files, trained, below)
        self._forgotten: tuple[int, ...] = ()
        self._rows = RowMaker(self._images, self._checks, evaluation)

    @cached_property
    def images_to_see(self) -> int:
        """How many images evaluating looks at, about: the new model and the one before it run over everything."""
        return count_images(self._images, self._images.domains) * (1 if self.materials.parent is None else 2)

    @property
    def _is_successor(self) -> bool:
        """Whether a source is there already, and this one is to take its place."""
        return self.materials.domain.name == NEW_SOURCE

    def run(self, model: Classifier, outcome: Outcome) -> Finished:
        """Evaluate, judge, export, prove, commit, publish."""
        self._enter("evaluating", self.images_to_see)
        evaluated = self._evaluate(model)
        self._enter("judging", 0)
        with publishing_alone(self._layout.state):
            candidate, gate = self._judge(evaluated)
            self._enter("exporting", 0)
            exported = self._publisher.export(candidate, gate)
            self._enter_or_discard("proving", candidate)
            staged = self._publisher.prove(candidate, exported)
            if self._is_successor and staged.sha256 is None:
                raise NothingToLearn(f"the new source changes nothing: {' '.join(staged.gate.reasons)}")
            self._enter_or_discard("committing", candidate)
            finished = self._commit(candidate, staged, evaluated.earlier, outcome)
            sweep_forgotten(self._store, self._layout, self._forgotten)
            if finished.version.state is VersionState.PROMOTED:
                publish(self._project, self._store, finished.version)
        return finished

    def _enter_or_discard(self, phase: str, candidate: Candidate) -> None:
        """Enter a phase; asked to stop here, leave nothing behind that was never committed."""
        try:
            self._enter(phase, 0)
        except Interrupted:
            self._publisher.discard(candidate.number)
            raise

    def _evaluate(self, model: Classifier) -> Evaluated:
        """Write the weights, and run the model and those before it over everything that they are judged on."""
        digest = write_weights(self._layout, self._episode.id, model)
        batch_size, parent = self._settings.evaluation.batch_size, self.materials.parent
        predictions = predict_domains(model, self._images, batch_size, seen=self._seen, below=self._below)
        if parent is not None:
            self._models.predict(parent)
        before = None if parent is None else self._models.load(parent)
        write_insight(self._layout, self.materials, before, model, batch_size, self._below)
        return Evaluated(model, digest, predictions, self._measure_earlier())

    def _measure_earlier(self) -> tuple[Accuracy, ...]:
        """The source model and the one before on the new domain: entries above R's diagonal, for FWT and for the gain."""
        entries: list[Accuracy] = []
        own = (self.materials.domain,)
        for version in self.materials.earlier_versions:
            entries += self._rows.make(self._models.predict(version, own), own, version.version)
        return tuple(entries)

    def _judge(self, evaluated: Evaluated) -> tuple[Candidate, GateOutcome]:
        """The model as the next version, and what the gate says to it."""
        parent = self.materials.parent
        with self._store.reading() as tx:
            number, episode_number = tx.versions.next_number(), tx.episodes.next_number()
            promoted = tx.versions.find_latest(VersionState.PROMOTED)
        gate = self._publisher.judge(
            None if self._is_successor else promoted,
            evaluated.predictions,
            Judged(number, evaluated.model.settings.classes, self._checks),
        )
        if promoted is not None and parent is not None and promoted.weights_sha256 != parent.weights_sha256:
            why = f"It follows version {parent.version}, and version {promoted.version} was promoted while it was trained."
            gate = GateOutcome(passed=False, reasons=(why, *gate.reasons), figures=gate.figures)
        if self._is_successor and gate.passed:
            gate = GateOutcome(passed=True, reasons=(FIRST,), figures=gate.figures)
        candidate = Candidate(
            number=number,
            model=evaluated.model,
            weights_sha256=evaluated.weights_sha256,
            episode=self._episode,
            episode_number=episode_number,
            config_hash=self._episode.config_hash,
            parent=promoted or parent,
            row=self._rows.make(evaluated.predictions, self._images.domains, number),
        )
        return candidate, gate

    def _commit(self, candidate: Candidate, staged: Staged, earlier: tuple[Accuracy, ...], outcome: Outcome) -> Finished:
        """All that the episode came to: the pixels of its memory, then every row in one transaction."""
        memory = None
        # What a rejected model takes for labels is not worth remembering.
        if staged.sha256 is not None and outcome.memory is not None:
            memory = write_memory(self._layout, self.materials, outcome.memory, self._settings)
        report = outcome.report | {MEMORY_IMAGES: len(memory or ())}
        if self.materials.taught:
            report[TAUGHT] = sorted(self.materials.taught)
        with self._store.writing(PATIENCE_SECONDS) as tx:
            self._commit_version(tx, candidate, staged, earlier)
            self._commit_domain(tx, candidate, staged, memory, find_known(report))
            number = tx.episodes.commit(self._episode.id, self._lease, report)
            tx.checkpoints.forget_all()
            tx.curves.forget_old()
            self._tell(tx, number, candidate, staged)
            return Finished(number, tx.versions.get(candidate.number), report)

    def _commit_version(self, tx: Transaction, candidate: Candidate, staged: Staged, earlier: tuple[Accuracy, ...]) -> None:
        weights = self._layout.relative(self._layout.weights(self._episode.id))
        parent, classes = candidate.parent.version if candidate.parent else None, self._settings.model.classes
        tx.versions.add(NewVersion(parent, self._episode.id, classes, weights, candidate.weights_sha256))
        self._publisher.record(tx, candidate.number, staged)
        given = read_given(tx, self._images.domains)
        for accuracy in (*earlier, *candidate.row):
            # Labels that changed since the episode began are measured on anew by whoever changed them.
            is_outdated = given.get(accuracy.domain_id) != self._images.given.get(accuracy.domain_id)
            if accuracy.kind is AccuracyKind.ESTIMATED or not is_outdated:
                tx.accuracies.record(accuracy)

    def _commit_domain(
        self, tx: Transaction, candidate: Candidate, staged: Staged, memory: list[MemoryItem] | None, known: str | None
    ) -> None:
        domain_id = self._episode.domain_id
        if memory is not None:
            tx.memories.replace(domain_id, memory)
        if self._is_successor:
            self._forgotten = succeed(tx, self.materials.domain, candidate.number)
        tx.domains.place(domain_id)
        rejected = None if staged.sha256 else f"version {candidate.number} was rejected: {staged.gate.reasons[0]}"
        tx.domains.set_state(domain_id, DomainState.DONE, rejected or known)

    def _tell(self, tx: Transaction, number: int, candidate: Candidate, staged: Staged) -> None:
        passed = staged.sha256 is not None
        about = {"domain_id": self._episode.domain_id, "episode_id": self._episode.id, "version": candidate.number}
        message = f"episode {number} gave version {candidate.number}" + ("" if passed else ", which the gate rejected")
        tx.events.add(EventKind.EPISODE_DONE, message, **about)
        if not passed:
            tx.events.add(EventKind.VERSION_REJECTED, " ".join(staged.gate.reasons), **about)
