"""Running one episode of a project to its end: lease, data, steps with checkpoints, then its conclusion.

Whatever kills the process, running the episode again goes on from the newest whole checkpoint and ends the same.
"""

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from adaptd.episodes.concluding import Conclusion, Finished
from adaptd.episodes.leases import LEASE_SECONDS, PATIENCE_SECONDS, holding_lease
from adaptd.episodes.materials import read_materials
from adaptd.episodes.novelty import Assessment
from adaptd.episodes.settings import resolve_project
from adaptd.episodes.sweep import sweep_episodes
from adaptd.episodes.telling import Audience, Telling, describe_work
from adaptd.errors import (
    AdaptdError,
    CheckpointError,
    ConfigError,
    DomainNotRecognised,
    EpisodeError,
    IntakeError,
    NothingToLearn,
)
from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.checkpoint import read_checkpoint, write_checkpoint
from adaptd.learning.depth import find_below, limit_threads, make_ready
from adaptd.learning.loop import Training
from adaptd.learning.origins import ORIGINS
from adaptd.learning.plan import Plan
from adaptd.learning.weights import load_weights
from adaptd.pace import ignore
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import REFUSED, SOURCE, SUPERVISED, DomainState, Episode, EventKind, Lease, Version
from adaptd.releases.weights import load_version
from adaptd.signals import Stop
from adaptd.store import Store

CHECKPOINTS_KEPT = 2

FAILURES = (EpisodeError, ConfigError, IntakeError)
"""Errors that trying again as it is would only repeat. After others (disk full, database gone) the episode goes on later."""

log = logging.getLogger(__name__)


class EpisodeRunner:
    """Runs one queued or interrupted episode, until it is done or `stop` is requested."""

    def __init__(
        self, project: Project, store: Store, episode: Episode, audience: Audience | None = None, stop: Stop | None = None
    ) -> None:
        self._project = resolve_project(project, episode)
        self._settings = self._project.settings
        self._store = store
        self._episode = episode
        self._layout = Layout(project.state)
        self._audience = audience or Audience()
        self._stop = stop or Stop()
        self._checkpointed = time.monotonic()
        self._training: Training | None = None

    def run(self) -> Finished:
        """Take the lease, train, evaluate, commit.

        After an expected failure the episode is recorded as failed, with its reason; an interruption leaves a checkpoint to
        go on from.

        Raises:
            Interrupted: it was asked to stop.
            StoreConflict: another process works on the episode.
            DomainKnown: its drop is no new domain, and is to be skipped.
        """
        with holding_lease(self._project, self._store, self._episode.id, self._stop.check) as lease:
            try:
                return self._run(lease)
            except FAILURES as problem:
                self._fail(lease, problem)
                raise

    def _fail(self, lease: Lease, problem: AdaptdError) -> None:
        with self._store.writing(PATIENCE_SECONDS) as tx:
            is_refused = isinstance(problem, DomainNotRecognised)
            report = {} if self._training is None else self._training.watch.describe()
            report |= {REFUSED: True} if is_refused else {}
            tx.episodes.fail(self._episode.id, lease, str(problem), report)
            tx.checkpoints.forget_all(self._episode.id)
            tx.domains.set_state(self._episode.domain_id, DomainState.REFUSED if is_refused else DomainState.FAILED, str(problem))
            self._event(tx.events.add, EventKind.EPISODE_FAILED, str(problem), **report)
        sweep_episodes(self._store, self._layout)

    def _run(self, lease: Lease) -> Finished:
        with self._store.writing(PATIENCE_SECONDS) as tx:
            tx.domains.set_state(self._episode.domain_id, DomainState.TRAINING)
            materials = read_materials(tx, self._layout, self._episode, teach=self._settings.labels.train)
            tx.episodes.set_base(self._episode.id, lease, materials.parent.version if materials.parent else None)
        model = self._start_model(materials.parent)
        is_source = self._episode.method == SUPERVISED
        plan = Plan.for_source(self._settings) if is_source else Plan.for_adaptation(self._settings, self._episode.method)
        limit_threads(plan)
        model.to(plan.device)
        if not is_source:
            self._audience.phase("comparing", 0, 0)
        folder, data = self._layout.activations(self._episode.id), materials.open_data()
        telling = Telling(self._store, self._episode.id, lease, self._audience)
        enter, show = partial(self._enter, telling), partial(self._prepare, telling)
        assessment = Assessment(self._project, self._store, materials, lease, self._stop.check)
        known = assessment.run(model, lambda: find_below(model, data, plan, folder, show))
        telling.prepare()
        ready = make_ready(model, data, plan, folder, show)
        training = self._training = Training(ready.model, ready.data, ready.plan)
        self._resume(training, materials.domain.name)
        self._stop.check()
        self._audience.say(describe_work(training, SOURCE if is_source else materials.domain.name))
        conclusion = Conclusion(self._project, self._store, materials, lease, enter, telling.saw, ready.below)
        training.model.seen, images = telling.saw, training.survey_images + training.method.look_images
        telling.enter("looking", images=images, step=training.step, steps=training.steps)
        self._train(training, lease, telling, conclusion)
        enter("looking", images)
        outcome = training.finish()
        training.model.seen = ignore  # it is copied to be exported, and nobody who looks on can be
        finished = conclusion.run(model, replace(outcome, report=outcome.report | known | ready.report))
        sweep_episodes(self._store, self._layout)
        return finished

    def _enter(self, telling: Telling, phase: str, images: int = 0) -> None:
        """Stop here if asked to; else tell what comes next."""
        self._stop.check()
        telling.enter(phase, images=images)

    def _start_model(self, parent: Version | None) -> Classifier:
        if parent is not None:
            return load_version(self._layout, parent)
        model = build_classifier(self._settings.model, self._episode.seed)
        weights = self._settings.model.weights
        fresh: tuple[str, ...] = ("classifier.weight",)
        if weights:
            fresh = load_weights(model, weights if weights in ORIGINS else self._project.root / weights).fresh
        if not self._settings.source.epochs and "classifier.weight" in fresh:
            raise NothingToLearn("with 0 epochs the model is taken as it is, and needs --weights with a trained classifier")
        return model

    def _resume(self, training: Training, domain: str) -> None:
        """Go on from the newest checkpoint that is whole; one that is not is reported and passed over."""
        with self._store.reading() as tx:
            known = tx.checkpoints.list_for(self._episode.id)
        for checkpoint in known:
            try:
                training.restore(read_checkpoint(self._layout.state / checkpoint.path, checkpoint.sha256))
            except CheckpointError as problem:
                log.warning("step %s of the episode on %s is lost: %s", checkpoint.step, domain, problem)
                with self._store.writing(PATIENCE_SECONDS) as tx:
                    tx.checkpoints.forget(checkpoint.id)
                    self._event(tx.events.add, EventKind.CHECKPOINT_REFUSED, str(problem))
                continue
            return
        if known:
            log.warning("the episode on %s starts afresh: none of its checkpoints can be used", domain)

    def _prepare(self, telling: Telling, done: int, total: int) -> None:
        """Between two passes below what is trained: stop if asked to, or tell how far it is."""
        self._stop.check()
        telling.reach(done, total)

    def _train(self, training: Training, lease: Lease, telling: Telling, conclusion: Conclusion) -> None:
        every = self._settings.training.checkpoint_seconds
        accuracy, show, look = None, self._audience.step, training.method.look_images
        for step in training:
            after = conclusion.images_to_see * (training.seconds_per_image + telling.seconds_below)
            report = step if step.seconds_left is None else replace(step, seconds_left=step.seconds_left + after)
            now, is_last = time.monotonic(), report.step == report.steps
            telling.step(report, look)
            # The last one always: what follows may take long and be stopped too.
            if now - self._checkpointed >= every or is_last or self._stop.requested:
                self._checkpoint(training, lease)
            if show is not None:
                if report.step % training.epoch_steps == 0:
                    accuracy = training.measure_source()
                show(report, accuracy)
            self._stop.check()

    def _checkpoint(self, training: Training, lease: Lease) -> None:
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
            tx.episodes.renew(self._episode.id, lease, self._checkpointed + LEASE_SECONDS)
            tx.checkpoints.add(self._episode.id, training.step, self._layout.relative(folder), digest)
            for checkpoint in old:
                tx.checkpoints.forget(checkpoint.id)
        for checkpoint in old:
            shutil.rmtree(self._layout.state / checkpoint.path, ignore_errors=True)

    def _event(self, add: Callable[..., int], kind: str, message: str, **more: object) -> None:
        add(kind, message, domain_id=self._episode.domain_id, episode_id=self._episode.id, **more)
