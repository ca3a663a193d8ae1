"""Cross-entropy on labelled images: episode 0, and with every domain's labels the oracle of a benchmark."""

from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.errors import NothingToLearn
from adaptd.learning.batches import Batch, Pool
from adaptd.learning.grcl import MemorySelection
from adaptd.learning.methods.base import Method, Update
from adaptd.learning.methods.foundation import SOURCE
from adaptd.learning.methods.options import NoOptions
from adaptd.learning.parameters import GROUPS
from adaptd.learning.ranks import share_of
from adaptd.learning.seeding import seed_for
from adaptd.learning.stepper import Stepper
from adaptd.learning.survey import Surveys, training_mode

PROBE = 0.2
"""Share of the steps for the classifier alone: a random one would first of all spoil the features."""


class Supervised(Method[NoOptions]):
    """Ordinary training: BatchNorm learns its statistics here, and dropout is on.

    The projector has no loss and yet takes part: weight decay makes it small, and GRCL starts from that.
    """

    trains_statistics = True
    stepper: Stepper

    def choose_pools(self) -> tuple[Pool, ...]:
        """The source alone."""
        if len(self.data.source) < 2:
            raise NothingToLearn(f"{len(self.data.source)} labelled image is too few to train on: give at least two")
        return (Pool(SOURCE, (self.data.source,), 0, self.plan.batch_size),)

    def build(self) -> None:
        """One gradient over the whole classifier."""
        self.stepper = self.train(*GROUPS)

    def update(self, batch: Batch) -> Update:
        """The gradient of the mean cross-entropy."""
        labels = batch.parts[0].labels
        assert labels is not None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(batch.seed, "dropout", batch.step))
            loss = functional.cross_entropy(self._answer(batch), labels) * share_of(len(labels))
        self.stepper.backward(loss)
        self.stepper.reduce()
        return Update({SOURCE: loss.item()}, {SOURCE: sqrt(self.stepper.gram().item())})

    def _answer(self, batch: Batch) -> Tensor:
        """Logits. Where trained features are kept below a cut, the classifier is trained first, and alone."""
        if not batch.made or batch.step >= PROBE * batch.steps:
            return self.model.classify(self.model.encode(batch.images))
        with torch.no_grad(), training_mode(self.model.encoder, on=False):
            features = self.model.encode(batch.images)
        return self.model.classify(features)

    def remember(self, surveys: Surveys) -> MemorySelection | None:  # noqa: ARG002  # the hook's
        """The source is kept whole; it needs no memory."""
        return None
