"""Crt.+Src. and Crt.+Src.+Mem.: the same losses as GRCL, weighted and added by hand instead of constrained (Eq. 13)."""

from math import sqrt
from typing import TypeVar

from torch import Tensor
from torch.nn import functional

from adaptd.learning.batches import Batch
from adaptd.learning.grcl import contrastive_loss
from adaptd.learning.methods.base import Update
from adaptd.learning.methods.contrastive import Contrastive
from adaptd.learning.methods.foundation import MEMORY, SOURCE
from adaptd.learning.methods.options import ContrastiveSourceMemoryOptions, ContrastiveSourceOptions
from adaptd.learning.parameters import GROUPS
from adaptd.learning.ranks import share_of
from adaptd.learning.stepper import Stepper

Options = TypeVar("Options", bound=ContrastiveSourceOptions)


class Multitask(Contrastive[Options]):
    """L = L_q + λ₁·L_ce(source) + λ₂·L_ce(memory): one loss, one backward over the whole batch."""

    stepper: Stepper

    @property
    def weights(self) -> dict[str, float]:
        """λ of each part."""
        return {SOURCE: self.options.source_weight}

    def build(self) -> None:
        """One gradient over the whole classifier."""
        self.stepper = self.train(*GROUPS)

    def update(self, batch: Batch) -> Update:
        """The gradient of the weighted sum."""
        features = self.model.encode(batch.images)
        z = self.model.embed(features)
        losses = {
            "contrastive": contrastive_loss(z, batch.rows, self.contrast(batch)) / len(batch.rows) * share_of(len(batch.rows))
        }
        losses |= self._cross_entropies(batch, self.model.classify(features))
        total = losses["contrastive"] + sum(weight * losses[name] for name, weight in self.weights.items() if name in losses)
        self.stepper.backward(total)
        self.stepper.reduce()
        self.z = [z.detach()]
        return Update({name: loss.item() for name, loss in losses.items()}, {"total": sqrt(self.stepper.gram().item())})

    def _cross_entropies(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        found, start = {}, 0
        for part in batch.parts:
            own = logits[start : start + len(part.rows)]
            start += len(part.rows)
            if part.labels is not None and self.weights.get(part.name):
                found[part.name] = functional.cross_entropy(own, part.labels) * share_of(len(part.labels))
        return found


class ContrastiveSource(Multitask[ContrastiveSourceOptions]):
    """Crt.+Src.: λ₂ = 0, though memories stay in the contrastive loss."""


class ContrastiveSourceMemory(Multitask[ContrastiveSourceMemoryOptions]):
    """Crt.+Src.+Mem."""

    @property
    def weights(self) -> dict[str, float]:
        """λ₁ and λ₂."""
        return {SOURCE: self.options.source_weight, MEMORY: self.options.memory_weight}
