"""An episode: steps one after another, with everything needed to stop anywhere and go on as if nothing had been.

What a step does is the method's business; where checkpoints and reports go, the caller's.
"""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cached_property

import torch
from torch import Tensor

from adaptd.errors import CheckpointError, NonFiniteSteps
from adaptd.learning.augment import Augmentation
from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import Batches, EpisodeData
from adaptd.learning.checkpoint import State
from adaptd.learning.grcl import FlatParameters
from adaptd.learning.methods.protocol import Method, Trainee, Update
from adaptd.learning.optimizer import make_rule
from adaptd.learning.plan import Plan, falling
from adaptd.learning.reports import Outcome, StepReport, Tally
from adaptd.learning.survey import Surveys, survey_all, training_mode


class Episode:
    """One episode on a model, which it trains in place.

    Iterate over it for step reports; between two steps `state()` may be taken. A fresh episode starts by itself; one that
    is resumed is given the state with `restore()` first. After the last step comes `finish()`.
    """

    def __init__(self, model: Classifier, method: Method, data: EpisodeData, plan: Plan) -> None:
        self.model, self.method, self.data, self.plan = model, method, data, plan
        pools = method.pools(data, plan)
        augmentation = Augmentation(plan.augmentation) if plan.augmentation else None
        self._batches = Batches(pools, plan.epochs, plan.seed, augmentation)
        self._flat = FlatParameters(model, rows=method.gradient_rows(pools))
        self._optimizer = make_rule(self._flat, plan.optimizer, plan.momentum, plan.weight_decay)
        self._tally = Tally()
        self._begun = False
        method.prepare(Trainee(model, self._flat, self._apply, self._optimizer.metric), pools, plan)

    @property
    def steps(self) -> int:
        """How many steps the whole episode has; fewer than planned once the method has settled."""
        settled = self._tally.settled_at
        return self._batches.steps if settled is None else min(self._batches.steps, settled + self.epoch_steps)

    @property
    def epoch_steps(self) -> int:
        """How many steps one pass over the target, or over the source in episode 0, has."""
        return max(1, self._batches.steps // max(1, self.plan.epochs))

    @property
    def step(self) -> int:
        """How many steps are done."""
        return self._tally.step

    def __iter__(self) -> Iterator[StepReport]:
        """Take the steps that are left.

        Raises:
            NonFiniteSteps: too many in a row came to nothing.
        """
        self._begin()
        while self._tally.step < self.steps:
            report = self._take_step(self._tally.step)
            self._tally.add(report)
            if self._tally.skipped_in_a_row >= self.plan.max_nonfinite_steps:
                raise NonFiniteSteps(
                    f"{self._tally.skipped_in_a_row} steps in a row gave NaN or infinity, up to step {report.step} of "
                    f"{self.steps}: lower the learning_rate, or look at the images"
                )
            yield report

    def finish(self) -> Outcome:
        """Choose what to remember, measure once more, and let go of the gradients."""
        self._begin()
        start = time.perf_counter()
        surveys = survey_all(self.model, self.data)
        memory = self.method.remember(surveys, self.data, self.plan.memory)
        self._flat.release()
        self._tally.seconds += time.perf_counter() - start
        return Outcome(memory, self._tally.report(self.method.name, _cross_entropies(surveys)))

    def state(self) -> State:
        """Everything this episode needs to go on from here, bit for bit."""
        self._begin()
        tensors = {"theta": self._flat.theta.detach()}
        tensors |= {f"buffer.{name}": value for name, value in self._buffers().items()}
        tensors |= {f"optimizer.{name}": value for name, value in self._optimizer.tensors().items()}
        tensors |= {f"method.{name}": value for name, value in self.method.tensors().items()}
        # Copies: the episode goes on while the state is being written.
        copies = {name: value.clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}
        facts = {"fingerprint": self._fingerprint, "threads": torch.get_num_threads(), "tally": asdict(self._tally)}
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
        self._flat.theta.copy_(state.tensors["theta"])
        for name, value in self._buffers().items():
            value.copy_(state.tensors[f"buffer.{name}"])
        self._optimizer.restore(_under("optimizer.", state.tensors))
        self.method.restore(_under("method.", state.tensors))
        torch.set_num_threads(state.facts["threads"])  # another number would add up in another order
        self._begun = True

    def _begin(self) -> None:
        if self._begun:
            return
        start = time.perf_counter()
        torch.set_num_threads(self.plan.threads)
        surveys = survey_all(self.model, self.data)
        self.method.begin(surveys)
        self._tally.before = _cross_entropies(surveys)
        self._tally.seconds += time.perf_counter() - start
        self._begun = True

    def _take_step(self, step: int) -> StepReport:
        start = time.perf_counter()
        batch = self._batches[step]
        with training_mode(self.model, on=self.method.trains_statistics):
            update = self.method.update(batch)
        if self.method.settled and self._tally.settled_at is None:
            self._tally.settled_at = step
        if update is not None:
            self._apply()
        done = update or Update({})
        return StepReport(
            step=step + 1,
            steps=self.steps,
            learning_rate=self._rate,
            images=len(batch.rows),
            seconds=time.perf_counter() - start,
            skipped=update is None,
            losses=dict(done.losses),
            norms=dict(done.norms),
            multipliers=dict(done.multipliers),
        )

    def _apply(self) -> None:
        self._optimizer.apply(self._rate)

    @property
    def _rate(self) -> float:
        """The plan's; once settled, it falls from what it was then."""
        step, settled = self._tally.step, self._tally.settled_at
        rate = self.plan.rate(step if settled is None else settled, self._batches.steps)
        return rate if settled is None else rate * falling((step - settled) / (self.steps - settled))

    def _buffers(self) -> dict[str, Tensor]:
        """BatchNorm statistics and the like, as far as they are part of the weights."""
        persistent = self.model.state_dict().keys()
        return {name: buffer for name, buffer in self.model.named_buffers() if name in persistent}

    @cached_property
    def _fingerprint(self) -> str:
        """What a checkpoint must agree with: model, method, plan and images. Threads come from the checkpoint instead."""
        facts = (self.model.settings, list(self._flat.shapes.items()), self.method.name, replace(self.plan, threads=0))
        digest = hashlib.sha256(repr(facts).encode())
        for images in (self.data.source, *self.data.memories, self.data.target):
            for column in () if images is None else (images.ids, images.labels):
                digest.update(b"|" if column is None else column.tobytes() + b"|")
        return digest.hexdigest()


def _cross_entropies(surveys: Surveys) -> dict[str, float | None]:
    """The mean loss over the whole source, and over all memories together."""
    memories = [(len(memory.logits), memory.cross_entropy) for memory in surveys.memories]
    total = sum(count for count, _ in memories)
    pooled = sum(count * (loss or 0.0) for count, loss in memories) / total if total else None
    return {"source": surveys.source.cross_entropy, "memory": pooled}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
