"""Running one episode of a project to its end: lease, data, steps with checkpoints, evaluation, one commit.

Whatever kills the process, running the episode again goes on from the newest whole checkpoint and ends the same.
"""

import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable

from adaptd.episodes.concluding import PATIENCE_SECONDS, Conclusion, Finished
from adaptd.episodes.sweep import sweep_episodes
from adaptd.errors import (
    AdaptdError,
    CheckpointError,
    ConfigError,
    EpisodeError,
    IntakeError,
    NothingToLearn,
    StoreBusy,
)
from adaptd.evaluation.evaluator import measure
from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.checkpoint import read_checkpoint, write_checkpoint
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan
from adaptd.learning.reports import StepReport
from adaptd.learning.weights import TORCHVISION, load_weights
from adaptd.machine import boot_id
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.lock import publishing_alone
from adaptd.project.settings import Settings
from adaptd.records import SUPERVISED, DomainState, Episode, Lease, Progress, Version
from adaptd.releases.materials import Materials
from adaptd.releases.promotion import finish_publishing
from adaptd.releases.weights import load_version
from adaptd.signals import Stop
from adaptd.store import Store, Transaction

LEASE_SECONDS = 60.0
PROGRESS_SECONDS = 1.0
CHECKPOINTS_KEPT = 2

FAILURES = (EpisodeError, ConfigError, IntakeError)
"""Errors that trying again as it is would only repeat. After others (disk full, database gone) the episode goes on later."""

log = logging.getLogger(__name__)

ShowStep = Callable[[StepReport, float | None], None]
"""Told of every step, with the accuracy measured on the source test set after the last whole epoch."""


class EpisodeRunner:
    """Runs one queued or interrupted episode, until it is done or `stop` is requested."""

    def __init__(
        self, project: Project, store: Store, episode: Episode, show: ShowStep | None = None, stop: Stop | None = None
    ) -> None:
        self._project = project
        self._store = store
        self._episode = episode
        self._settings = Settings.model_validate_json(json.dumps(episode.config))
        self._layout = Layout(project.state)
        self._show = show
        self._stop = stop or Stop()
        self._lease = self._take_lease()
        self._progressed = self._checkpointed = time.monotonic()

    def run(self) -> Finished:
        """Train, evaluate, commit.

        An expected failure sets the episode aside with its reason; an interruption leaves a checkpoint to go on from.

        Raises:
            Interrupted: it was asked to stop.
        """
        try:
            return self._run()
        except FAILURES as problem:
            self._set_aside(problem)
            raise

    def _set_aside(self, problem: AdaptdError) -> None:
        with self._store.writing(PATIENCE_SECONDS) as tx:
            tx.episodes.fail(self._episode.id, self._lease, str(problem))
            tx.checkpoints.forget_all(self._episode.id)
            tx.domains.set_state(self._episode.domain_id, DomainState.FAILED, str(problem))
            self._event(tx.events.add, "episode-failed", str(problem))
        sweep_episodes(self._store, self._layout)

    def _run(self) -> Finished:
        with publishing_alone(self._layout.state):
            finish_publishing(self._project, self._store)
        with self._store.writing(PATIENCE_SECONDS) as tx:
            materials = Materials.read(tx, self._layout, self._episode)
            parent = self._find_parent(tx)
            tx.episodes.set_base(self._episode.id, self._lease, parent.version if parent else None)
        model = self._start_model(parent)
        is_source = self._episode.method == SUPERVISED
        plan = Plan.for_source(self._settings) if is_source else Plan.for_adaptation(self._settings, self._episode.method)
        training = Training(model, materials.open_data(), plan)
        self._resume(training)
        self._stop.check()
        self._progress(Progress("preparing", training.step, training.steps))
        self._train(training, lambda: self._source_accuracy(model, materials))
        outcome = training.finish()
        conclusion = Conclusion(self._project, self._store, self._episode, self._lease, materials)
        finished = conclusion.draw(model, outcome, parent, self._enter)
        sweep_episodes(self._store, self._layout)
        return finished

    def _enter(self, phase: str) -> None:
        """Stop here if asked to; else tell what comes next."""
        self._stop.check()
        self._progress(Progress(phase, 1, 1))

    def _find_parent(self, tx: Transaction) -> Version | None:
        """What the episode begins with. One that has begun stays with it, whatever was promoted meanwhile."""
        if self._episode.base is not None and tx.checkpoints.list_for(self._episode.id):
            return tx.versions.get(self._episode.base)
        return tx.versions.find_base()

    def _start_model(self, parent: Version | None) -> Classifier:
        if parent is not None:
            return load_version(self._layout, parent)
        model = build_classifier(self._settings.model, self._episode.seed)
        weights = self._settings.model.weights
        fresh: tuple[str, ...] = ("classifier.weight",)
        if weights:
            fresh = load_weights(model, weights if weights == TORCHVISION else self._project.root / weights).fresh
        if not self._settings.source.epochs and "classifier.weight" in fresh:
            raise NothingToLearn("with 0 epochs the model is taken as it is, and needs --weights with a trained classifier")
        return model

    def _resume(self, training: Training) -> None:
        """Go on from the newest checkpoint that is whole; one that is not is reported and passed over."""
        with self._store.reading() as tx:
            known = tx.checkpoints.list_for(self._episode.id)
        for checkpoint in known:
            try:
                training.restore(read_checkpoint(self._layout.state / checkpoint.path, checkpoint.sha256))
            except CheckpointError as problem:
                log.warning("step %s of episode %s is lost: %s", checkpoint.step, self._episode.id, problem)
                with self._store.writing(PATIENCE_SECONDS) as tx:
                    tx.checkpoints.forget(checkpoint.id)
                    self._event(tx.events.add, "checkpoint-refused", str(problem))
                continue
            return
        if known:
            log.warning("episode %s starts afresh: none of its checkpoints can be used", self._episode.id)

    def _source_accuracy(self, model: Classifier, materials: Materials) -> float | None:
        test = materials.open_test(materials.source)
        return None if test is None else measure(model, test, self._settings.evaluation.batch_size).accuracy

    def _train(self, training: Training, measure_source: Callable[[], float | None]) -> None:
        every = self._settings.training.checkpoint_seconds
        accuracy = None
        for report in training:
            now, is_last = time.monotonic(), report.step == report.steps
            if now - self._progressed >= PROGRESS_SECONDS or is_last:
                live = {"losses": report.losses, "multipliers": report.multipliers, "learning_rate": report.learning_rate}
                self._progress(Progress("training", report.step, report.steps, live))
            # The last one always: what follows may take long and be stopped too.
            if now - self._checkpointed >= every or is_last or self._stop.requested:
                self._checkpoint(training)
            if self._show is not None:
                if report.step % training.epoch_steps == 0:
                    accuracy = measure_source()
                self._show(report, accuracy)
            self._stop.check()

    def _progress(self, progress: Progress) -> None:
        """Tell how far it is, if the database lets us: nobody needs to know, and nobody else can take the episode."""
        self._progressed = time.monotonic()
        try:
            with self._store.writing() as tx:
                tx.episodes.progress(self._episode.id, self._lease, progress)
                self._lease = tx.episodes.renew(self._episode.id, self._lease, self._progressed + LEASE_SECONDS)
        except StoreBusy as problem:
            log.warning("progress was not recorded: %s", problem)

    def _checkpoint(self, training: Training) -> None:
        self._checkpointed = time.monotonic()
        folder = self._layout.checkpoints(self._episode.id) / str(training.step)
        with self._store.reading() as tx:
            known = tx.checkpoints.list_for(self._episode.id)
        if any(checkpoint.step == training.step for checkpoint in known):
            return
        # A folder without a row was never committed.
        shutil.rmtree(folder, ignore_errors=True)
        digest = write_checkpoint(folder, training.state())
        old = known[CHECKPOINTS_KEPT - 1 :]
        with self._store.writing(PATIENCE_SECONDS) as tx:
            # Who lost the lease must not leave anything to go on from.
            self._lease = tx.episodes.renew(self._episode.id, self._lease, self._checkpointed + LEASE_SECONDS)
            tx.checkpoints.add(self._episode.id, training.step, self._layout.relative(folder), digest)
            for checkpoint in old:
                tx.checkpoints.forget(checkpoint.id)
        for checkpoint in old:
            shutil.rmtree(self._layout.state / checkpoint.path, ignore_errors=True)

    def _take_lease(self) -> Lease:
        owner = f"{socket.gethostname()}:{os.getpid()}"
        with self._store.writing() as tx:
            lease = tx.episodes.lease(self._episode.id, owner, boot_id(), time.monotonic() + LEASE_SECONDS)
            tx.domains.set_state(self._episode.domain_id, DomainState.TRAINING)
        return lease

    def _event(self, add: Callable[..., int], kind: str, message: str, **more: object) -> None:
        add(kind, message, domain_id=self._episode.domain_id, episode_id=self._episode.id, **more)
