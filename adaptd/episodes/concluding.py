"""What a trained model comes to: its row of R, the gate's word, a version, a memory, all in one commit. Training is over."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from adaptd.episodes.insights import write_insight
from adaptd.learning.backbones import Classifier
from adaptd.learning.reports import Outcome
from adaptd.library.cache import write_cache
from adaptd.library.memories import MEMORY_IMAGES
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.lock import publishing_alone
from adaptd.project.settings import Settings
from adaptd.publishing.card import GateOutcome
from adaptd.records import Accuracy, DomainState, Episode, EventKind, Lease, MemoryItem, Version, VersionState
from adaptd.releases.materials import Materials
from adaptd.releases.predictions import Answers, ask, make_row
from adaptd.releases.publication import Candidate, Publisher, Staged
from adaptd.releases.repositories import publish
from adaptd.releases.weights import load_version, write_weights
from adaptd.store import NewVersion, Store, Transaction

PATIENCE_SECONDS = 300.0
"""How long a write that the episode cannot do without waits for a locked database."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A committed episode."""

    number: int
    version: Version
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trial:
    """A model as the version it would be, judged and put into the staging folder."""

    number: int
    parent: Version | None
    publisher: Publisher
    staged: Staged


class Conclusion:
    """The end of one episode."""

    def __init__(self, project: Project, store: Store, episode: Episode, lease: Lease, materials: Materials) -> None:
        self._project, self._store, self._episode, self._lease = project, store, episode, lease
        self._materials = materials
        self._settings = Settings.model_validate_json(json.dumps(episode.config))
        self._layout = Layout(project.state)

    def draw(self, model: Classifier, outcome: Outcome, parent: Version | None, enter: Callable[[str], None]) -> Finished:
        """Evaluate, judge, publish, commit; `enter` is called before each part and may raise to stop there."""
        materials = self._materials
        enter("evaluating")
        digest = write_weights(self._layout, self._episode.id, model)
        answers = ask(model, materials, self._settings.evaluation.batch_size)
        row = make_row(answers, materials, self._settings.evaluation)
        before = self._earlier_entries()
        parent_model = None if parent is None else load_version(self._layout, parent)
        write_insight(self._layout, materials, parent_model, model, self._settings.evaluation.batch_size)
        enter("publishing")
        with publishing_alone(self._layout.state):
            trial = self._try_out(model, digest, parent, answers, row)
            # What a rejected model takes for labels is not worth remembering.
            memory = self._keep_memory(outcome) if trial.staged.sha256 is not None else None
            enter("committing")
            accuracies = (*before, *(replace(entry, version=trial.number) for entry in row))
            with self._store.writing(PATIENCE_SECONDS) as tx:
                finished = self._commit(tx, trial, digest, accuracies, (memory, outcome))
            if finished.version.state is VersionState.PROMOTED:
                publish(self._project, self._store, finished.version)
        return finished

    def _try_out(
        self, model: Classifier, digest: str, parent: Version | None, answers: Answers, row: tuple[Accuracy, ...]
    ) -> Trial:
        """Gate, export and proof of the model as the next version."""
        publisher = Publisher(self._project, self._store, self._materials)
        with self._store.reading() as tx:
            number, number_of_episode = tx.versions.next_number(), tx.episodes.next_number()
            promoted = tx.versions.find_latest(VersionState.PROMOTED)
        gate = publisher.judge(promoted, answers, model.settings.classes)
        if promoted is not None and parent is not None and promoted.weights_sha256 != parent.weights_sha256:
            why = f"It follows version {parent.version}, and version {promoted.version} was promoted while it was trained."
            gate = GateOutcome(passed=False, reasons=(why, *gate.reasons), figures=gate.figures)
        candidate = Candidate(number, model, digest, self._episode, number_of_episode, promoted or parent, row)
        return Trial(number, promoted or parent, publisher, publisher.stage(candidate, gate))

    def _commit(
        self,
        tx: Transaction,
        trial: Trial,
        digest: str,
        accuracies: tuple[Accuracy, ...],
        learnt: tuple[list[MemoryItem] | None, Outcome],
    ) -> Finished:
        """All that the episode came to, in one transaction."""
        memory, outcome = learnt
        classes, weights = self._settings.model.classes, self._layout.relative(self._layout.weights(self._episode.id))
        parent = trial.parent.version if trial.parent else None
        tx.versions.add(NewVersion(parent, self._episode.id, classes, weights, digest))
        trial.publisher.record(tx, trial.number, trial.staged)
        for accuracy in accuracies:
            tx.accuracies.record(accuracy)
        if memory is not None:
            tx.memories.replace(self._episode.domain_id, memory)
        tx.domains.place(self._episode.domain_id)
        passed = trial.staged.sha256 is not None
        why = None if passed else f"version {trial.number} was rejected: {trial.staged.gate.reasons[0]}"
        tx.domains.set_state(self._episode.domain_id, DomainState.DONE, why)
        report = outcome.report | {MEMORY_IMAGES: len(memory or ())}
        number = tx.episodes.commit(self._episode.id, self._lease, report)
        tx.checkpoints.forget_all()
        message = f"episode {number} gave version {trial.number}" + ("" if passed else ", which the gate rejected")
        about = {"domain_id": self._episode.domain_id, "episode_id": self._episode.id, "version": trial.number}
        tx.events.add(EventKind.EPISODE_DONE, message, **about)
        if not passed:
            tx.events.add(EventKind.VERSION_REJECTED, " ".join(trial.staged.gate.reasons), **about)
        return Finished(number, tx.versions.get(trial.number), report)

    def _keep_memory(self, outcome: Outcome) -> list[MemoryItem] | None:
        """Write the pixels of the new memory, and return its rows."""
        materials = self._materials
        if outcome.memory is None:
            return None
        kept = materials.merge_memory(outcome.memory, self._settings.memory.images_per_domain)
        target = self._layout.memory(self._episode.domain_id, self._episode.id)
        # Left by a process killed before its commit.
        shutil.rmtree(target, ignore_errors=True)
        write_cache(target, kept.images, kept.sha256, materials.preprocessing)
        classes = self._settings.model.classes
        assert kept.images.labels is not None
        return [
            MemoryItem(int(image), self._episode.domain_id, classes[int(label)], float(sure))
            for image, label, sure in zip(kept.images.ids, kept.images.labels, kept.confidence, strict=True)
        ]

    def _earlier_entries(self) -> list[Accuracy]:
        """The source model and the one before on the new domain: entries above R's diagonal, for FWT and for the gain."""
        materials = self._materials
        entries: list[Accuracy] = []
        own = tuple(domain for domain in materials.measured_on if domain.id == self._episode.domain_id)
        for version in materials.earlier_versions:
            answers = ask(load_version(self._layout, version), materials, self._settings.evaluation.batch_size, own)
            row = make_row(answers, materials, self._settings.evaluation)
            entries += [replace(entry, version=version.version) for entry in row if entry.domain_id == own[0].id]
        return entries
