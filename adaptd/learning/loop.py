"""Training for an episode: steps one after another, with everything needed to stop anywhere and go on as if nothing had been.

What a step does is the method's business; where checkpoints and reports go, the caller's.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from math import isfinite

import torch

from adaptd.errors import CheckpointError, NonFiniteSteps
from adaptd.learning.allocation import keeping_freed_memory
from adaptd.learning.augment import Augmentation
from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import Batch, Batches, EpisodeData
from adaptd.learning.checkpoint import State
from adaptd.learning.devices import CPU, Ahead
from adaptd.learning.methods.base import Update, create_method
from adaptd.learning.parameters import under
from adaptd.learning.plan import Plan, falling
from adaptd.learning.reports import Outcome, StepReport, Tally
from adaptd.learning.stepper import NotFinite
from adaptd.learning.survey import Surveys, choose_rows, survey, survey_all, training_mode
from adaptd.learning.timing import Timing
from adaptd.learning.watch import Watch


class Training:
    """The training of one episode on a model, which it changes in place.

    Iterate over it for step reports; between two steps `state()` may be taken. A fresh one begins by itself; one that is resumed
    is given the state with `restore()` first. After the last step comes `finish()`.
    """

    def __init__(self, model: Classifier, data: EpisodeData, plan: Plan) -> None:
        self.model, self.data, self.plan = model.to(plan.device), data, plan
        self.method = create_method(plan, model, data)
        augmentation = Augmentation(plan.augmentation) if plan.augmentation else None
        self.batches = Batches(self.method.pools, plan.epochs, plan.seed, augmentation)
        read = self.batches.__getitem__
        self._read = read if plan.device == CPU else Ahead(read, self.batches.steps, plan.device).__getitem__
        self._tally = Tally()
        self.watch = Watch(self.model, data, plan)
        self._begun = False
        self._timing = Timing()
        torch.set_num_threads(plan.threads)

    @property
    def steps(self) -> int:
        """How many steps the whole episode has; fewer than planned once the method has converged."""
        converged = self._tally.converged_at
        return self.batches.steps if converged is None else min(self.batches.steps, converged + self.epoch_steps)

    @property
    def epoch_steps(self) -> int:
        """How many steps one pass over the target, or over the source in episode 0, has."""
        return max(1, self.batches.steps // max(1, self.plan.epochs))

    @property
    def step(self) -> int:
        """How many steps are done."""
        return self._tally.step

    @property
    def seconds_per_image(self) -> float:
        """What it takes the model to look at an image; 0 before it has."""
        return self._tally.survey_seconds / self.survey_images

    @property
    def survey_images(self) -> int:
        """How many images the first look at everything is at."""
        return sum(map(len, choose_rows(self.model, self.data, keys=self.method.needs_keys)))

    def begin(self) -> None:
        """Look at everything for the first time; nothing to do where that was done."""
        if self._begun:
            return
        start = time.perf_counter()
        torch.set_num_threads(self.plan.threads)
        surveys = survey_all(self.model, self.data, keys=self.method.needs_keys)
        self._tally.survey_seconds = time.perf_counter() - start
        self.watch.begin(surveys.target)
        if self.watch.trust is not None:
            self.method.check(self.watch.trust)
        looking = time.perf_counter()
        self.method.begin(surveys)
        self._tally.look_seconds = time.perf_counter() - looking
        self._tally.before = _cross_entropies(surveys)
        self._tally.seconds += time.perf_counter() - start
        self._begun = True

    def __iter__(self) -> Iterator[StepReport]:
        """Take the steps that are left.

        Raises:
            NonFiniteSteps: too many in a row came to nothing.
        """
        self.begin()
        with keeping_freed_memory():
            yield from self._take_steps()

    def _take_steps(self) -> Iterator[StepReport]:
        while self._tally.step < self.steps:
            report = self._take_step(self._tally.step)
            self._tally.add(report)
            if self._tally.skipped_in_a_row >= self.plan.max_nonfinite_steps:
                raise NonFiniteSteps(
                    f"{self._tally.skipped_in_a_row} steps in a row gave NaN or infinity, up to step {report.step} of "
                    f"{self.steps}: lower the learning_rate, or look at the images"
                )
            yield report

    def measure_source(self) -> float | None:
        """The share of the source's held-out images that the model gets right; None where there are none."""
        held_out = self.data.held_out_source
        if held_out is None or held_out.labels is None or not len(held_out):
            return None
        predicted = survey(self.model, held_out).logits.argmax(dim=1).cpu().numpy()
        return float((predicted == held_out.labels).mean())

    def finish(self) -> Outcome:
        """Choose what to remember, measure once more, and let go of the gradients."""
        self.begin()
        start = time.perf_counter()
        surveys = survey_all(self.model, self.data)
        self.watch.look(self.step, surveys.target)
        self.watch.check(is_last=True)
        memory = self.method.remember(surveys)
        self.method.parameters.release()
        self._tally.seconds += time.perf_counter() - start
        report = self._tally.report(self.method.name, _cross_entropies(surveys))
        return Outcome(memory, report | self.watch.describe())

    def state(self) -> State:
        """Everything this episode needs to go on from here, bit for bit."""
        self.begin()
        tensors = self.method.parameters.tensors()
        tensors |= {f"method.{name}": value for name, value in self.method.tensors().items()}
        # Copies: the episode goes on while the state is being written.
        copies = {name: value.cpu().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}
        facts = {"fingerprint": self._fingerprint, "threads": torch.get_num_threads(), "tally": asdict(self._tally)}
        facts["watch"] = self.watch.state()
        return State(copies, facts)

    def restore(self, state: State) -> None:
        """Go on from a state of the same episode.

        Raises:
            CheckpointError: it belongs to another model, method, plan or to other images.
        """
        if state.facts.get("fingerprint") != self._fingerprint:
            raise CheckpointError(
                "the checkpoint belongs to another model, method, plan or other images: start the episode afresh"
            )
        self._tally = Tally(**state.facts["tally"])
        self.watch.restore(state.facts["watch"])
        tensors = {name: tensor.to(self.plan.device) for name, tensor in state.tensors.items()}
        self.method.parameters.restore(tensors)
        self.method.restore(under("method.", tensors))
        torch.set_num_threads(state.facts["threads"])  # another number would add up in another order
        self._begun = True

    def _take_step(self, step: int) -> StepReport:
        start = time.perf_counter()
        batch = self._read(step)
        looked = self._look(step) if step and step % self.epoch_steps == 0 else 0.0
        if self.method.converged and self._tally.converged_at is None:
            self._tally.converged_at = step
        update = None
        with suppress(NotFinite):
            update = self._update(batch)
        done, seconds = update or Update({}), time.perf_counter() - start
        self._timing.add(seconds - looked)
        return StepReport(
            step=step + 1,
            steps=self.steps,
            learning_rate=self._rate,
            images=len(batch.rows),
            seconds=seconds,
            skipped=update is None,
            losses=dict(done.losses),
            norms=dict(done.norms),
            multipliers=dict(done.multipliers),
            health=self.watch.newest,
            seconds_left=self._seconds_left(step + 1),
        )

    def _look(self, step: int) -> float:
        """Look at everything before an epoch begins; the seconds that took."""
        start = time.perf_counter()
        self.watch.look(step, self.method.begin_epoch(step // self.epoch_steps))
        self.watch.check()
        self._tally.look_seconds = time.perf_counter() - start
        return self._tally.look_seconds

    def _seconds_left(self, step: int) -> float | None:
        """Steps, the looks between them, and the survey of everything at the end."""
        one, tally = self._timing.step_seconds(), self._tally
        if one is None:
            return None
        looks = (self.steps - 1) // self.epoch_steps - (step - 1) // self.epoch_steps
        return one * (self.steps - step) + tally.look_seconds * (1 + looks) + tally.survey_seconds

    def _update(self, batch: Batch) -> Update:
        """One update and its steps, or nothing at all.

        Raises:
            NotFinite: a loss or a gradient was not finite, and everything is as it was.
        """
        method, parameters = self.method, self.method.parameters
        parameters.rate = self._rate
        attributes = dict(vars(method))
        try:
            with parameters.unchanged_unless_finite(statistics=method.trains_statistics):
                with training_mode(self.model, on=method.trains_statistics):
                    update = method.update(batch)
                _check(update)
                parameters.take_steps()
        except NotFinite:
            vars(method).update(attributes)
            raise
        method.follow(batch)
        return update

    @property
    def _rate(self) -> float:
        """The plan's; once converged, it falls from what it was then."""
        step, converged = self._tally.step, self._tally.converged_at
        rate = self.plan.rate(step if converged is None else converged, self.batches.steps)
        return rate if converged is None else rate * falling((step - converged) / (self.steps - converged))

    @cached_property
    def _fingerprint(self) -> str:
        """What a checkpoint must agree with: model, method, plan and images. It moves between devices, and brings its threads."""
        facts = (self.model.settings, self.method.parameters.describe(), replace(self.plan, threads=0, device=CPU))
        digest = hashlib.sha256(repr(facts).encode())
        for images in self.data.every:
            for column in (images.ids, images.labels):
                digest.update(b"|" if column is None else column.tobytes() + b"|")
        return digest.hexdigest()


def _check(update: Update) -> None:
    if not all(map(isfinite, (*update.losses.values(), *update.norms.values()))):
        raise NotFinite


def _cross_entropies(surveys: Surveys) -> dict[str, float | None]:
    """The mean loss over the whole source, and over all memories together."""
    memories = [(len(memory.logits), memory.cross_entropy) for memory in surveys.memories]
    total = sum(count for count, _ in memories)
    pooled = sum(count * (loss or 0.0) for count, loss in memories) / total if total else None
    return {"source": surveys.source.cross_entropy, "memory": pooled}
