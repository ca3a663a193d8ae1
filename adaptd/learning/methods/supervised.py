"""Cross-entropy on labelled images: episode 0, and with every domain's labels the oracle of a benchmark."""

from math import isfinite, sqrt

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.errors import NothingToLearn
from adaptd.learning.batches import Batch, EpisodeData, Pool
from adaptd.learning.grcl import MemorySelection
from adaptd.learning.methods.foundation import SOURCE
from adaptd.learning.methods.protocol import Trainee, Update
from adaptd.learning.plan import Plan
from adaptd.learning.seeding import seed_for
from adaptd.learning.survey import Surveys
from adaptd.project.settings import MemorySettings


class Supervised:
    """Ordinary training: BatchNorm learns its statistics here, and dropout is on."""

    name = "supervised"
    trains_statistics = True
    settled = False
    _trainee: Trainee

    def pools(self, data: EpisodeData, plan: Plan) -> tuple[Pool, ...]:
        """The source alone."""
        if len(data.source) < 2:
            raise NothingToLearn(f"{len(data.source)} labelled image is too few to train on: give at least two")
        return (Pool(SOURCE, (data.source,), 0, plan.batch_size),)

    def gradient_rows(self, pools: tuple[Pool, ...]) -> int:  # noqa: ARG002  # the protocol's
        """One loss, one gradient."""
        return 1

    def prepare(self, trainee: Trainee, pools: tuple[Pool, ...], plan: Plan) -> None:  # noqa: ARG002  # the protocol's
        """Nothing to build."""
        self._trainee = trainee

    def begin(self, surveys: Surveys) -> None:
        """Nothing to fill."""

    def update(self, batch: Batch) -> Update | None:
        """The gradient of the mean cross-entropy."""
        flat, model, labels = self._trainee.flat, self._trainee.model, batch.parts[0].labels
        assert labels is not None
        statistics = list(model.buffers())
        before = [buffer.clone() for buffer in statistics]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(batch.seed, "dropout", batch.step))
            loss = functional.cross_entropy(model(batch.images), labels)
        flat.clear()
        flat.accumulate_into(0)
        torch.autograd.backward(loss)
        squared = flat.gram().item()
        if not isfinite(squared):
            for buffer, value in zip(statistics, before, strict=True):
                buffer.copy_(value)
            return None
        return Update({SOURCE: loss.item()}, {SOURCE: sqrt(squared)})

    def remember(self, surveys: Surveys, data: EpisodeData, quota: MemorySettings) -> MemorySelection | None:  # noqa: ARG002
        """The source is kept whole; it needs no memory."""
        return None

    def tensors(self) -> dict[str, Tensor]:
        """Nothing of its own."""
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Nothing of its own."""
