"""Crt.+Src. and Crt.+Src.+Mem.: the same losses as GRCL, weighted and added by hand instead of constrained."""

from math import isfinite, sqrt

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.batches import Batch, Pool
from adaptd.learning.grcl import contrastive_loss
from adaptd.learning.methods.foundation import MEMORY, SOURCE, Contrastive
from adaptd.learning.methods.protocol import Trainee, Update
from adaptd.learning.plan import Plan


class Multitask(Contrastive):
    """L = L_q + λ₁·L_ce(source) + λ₂·L_ce(memory): one loss, one backward over the whole batch."""

    _weights: dict[str, float]

    def __init__(self, name: str, *, memory: bool = True) -> None:
        super().__init__(name)
        self._memory = memory

    def gradient_rows(self, pools: tuple[Pool, ...]) -> int:  # noqa: ARG002  # the protocol's
        """One loss, one gradient."""
        return 1

    def prepare(self, trainee: Trainee, pools: tuple[Pool, ...], plan: Plan) -> None:
        """λ₁ and λ₂; for Crt.+Src. λ₂ = 0."""
        super().prepare(trainee, pools, plan)
        self._weights = {SOURCE: plan.method.source_weight, MEMORY: plan.method.memory_weight if self._memory else 0.0}

    def update(self, batch: Batch) -> Update | None:
        """The gradient of the weighted sum."""
        flat, model = self.trainee.flat, self.trainee.model
        features = model.encode(batch.images)
        z = model.project(features)
        losses = {"contrastive": contrastive_loss(z, batch.rows, self.contrast(batch)) / len(batch.rows)}
        losses |= self._cross_entropies(batch, model.classify(features))
        total = losses["contrastive"] + sum(self._weights[name] * losses[name] for name in losses if name in self._weights)
        flat.clear()
        flat.accumulate_into(0)
        torch.autograd.backward(total)
        squared = flat.gram().item()
        if not isfinite(squared):
            return None
        self.bank.update([batch.rows], [z.detach()])
        return Update({name: loss.item() for name, loss in losses.items()}, {"total": sqrt(squared)})

    def _cross_entropies(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        found, start = {}, 0
        for part in batch.parts:
            own = logits[start : start + len(part.rows)]
            start += len(part.rows)
            if part.labels is not None and self._weights[part.name]:
                found[part.name] = functional.cross_entropy(own, part.labels)
        return found
