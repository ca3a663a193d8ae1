"""Guarded self-training: learn from the target's own pseudo-labels, along directions that hurt neither source nor memories.

Described in docs/method.md. The paper's constraints stay as they are; what is inside them is another objective.
"""

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.batches import Batch, EpisodeData, Pool
from adaptd.learning.grcl import MemorySelection, class_ranks, pseudo_labels
from adaptd.learning.grcl.projection import project
from adaptd.learning.methods.foundation import MEMORY, SOURCE, TARGET, adaptation_pools, remember
from adaptd.learning.methods.protocol import Trainee, Update
from adaptd.learning.plan import Plan
from adaptd.learning.survey import Survey, Surveys, survey
from adaptd.settings import MemorySettings

FIRST_SHARE, LAST_SHARE = 0.4, 0.9
"""Share of the target's agreed images that is learned from, in the first and in the last epoch."""

NOT_YET = -1
"""The pseudo-label of an image that is not learned from in this epoch."""

CONSTRAINED = (SOURCE, MEMORY)


class Guarded:
    """Cross-entropy on source, memories and the target's surest images, projected so that no constraint's loss rises.

    Each epoch the model looks at the whole target again. An image takes part once the classifier and k-means in feature space
    agree on its class and it is among the surest of that class; the share of those that take part grows with the epochs.
    """

    trains_statistics = False
    trainee: Trainee
    plan: Plan
    labels: Tensor
    _target: Pool
    _centroids: Tensor

    def __init__(self, name: str = "guarded", *, projected: bool = True) -> None:
        self.name = name
        self._projected = projected

    def pools(self, data: EpisodeData, plan: Plan) -> tuple[Pool, ...]:
        """Source, memory and target."""
        return adaptation_pools(data, plan)

    def gradient_rows(self, pools: tuple[Pool, ...]) -> int:
        """The target's, and one for each constraint."""
        return len(pools)

    def prepare(self, trainee: Trainee, pools: tuple[Pool, ...], plan: Plan) -> None:
        """Number the constraints."""
        self.trainee, self.plan, self._target = trainee, plan, pools[-1]
        self._rows = {pool.name: number for number, pool in enumerate(pools[:-1], 1)}
        self.labels = torch.full((len(self._target),), NOT_YET)
        weights = {SOURCE: plan.method.source_weight, MEMORY: plan.method.memory_weight}
        self._weights = [1.0, *(weights[pool.name] for pool in pools[:-1])]

    def begin(self, surveys: Surveys) -> None:
        """Pseudo-labels for the first epoch."""
        assert surveys.target is not None
        assert surveys.source.centroids is not None
        self._centroids = surveys.source.centroids
        self._look(surveys.target, 0.0)

    def update(self, batch: Batch) -> Update | None:
        """The objective's gradient, bent as far as the constraints ask for."""
        epoch_steps = self._target.slices
        if batch.step and batch.step % epoch_steps == 0:
            self._look(survey(self.trainee.model, self._target.sets[0]), batch.step / batch.steps)
        flat = self.trainee.flat
        flat.clear()
        losses, counts = [0.0] * len(self._weights), [0] * len(self._weights)
        for part in batch.parts:
            row = self._rows.get(part.name, 0)
            labels = part.labels if part.labels is not None else self.labels[part.rows - self._target.first_row]
            used = labels != NOT_YET
            if not bool(used.any()):
                continue
            images, labels = (part.images, labels) if bool(used.all()) else (part.images[used], labels[used])
            loss = functional.cross_entropy(self.trainee.model(images), labels, reduction="sum")
            flat.accumulate_into(row)
            torch.autograd.backward(loss)
            losses[row] += loss.item()
            counts[row] += len(labels)
        return self._combine(losses, counts)

    def _combine(self, losses: list[float], counts: list[int]) -> Update | None:
        """From g = g_target + Σ λᵢgᵢ the nearest w = g + Σ uᵢgᵢ, u ≥ 0, along which no constraint's loss rises.

        Nearest, and along, in the metric of the step that follows.
        """
        flat = self.trainee.flat
        scale = [1 / count if count else 0.0 for count in counts]
        norms = flat.gram().diagonal().sqrt() * torch.tensor(scale, dtype=torch.float64)
        if not bool(norms.isfinite().all()):
            return None
        flat.combine([weight * s for weight, s in zip(self._weights, scale, strict=True)])
        scale[0] = 1.0  # row 0 is g now
        gram = flat.gram(self.trainee.metric()) * torch.outer(*[torch.tensor(scale, dtype=torch.float64)] * 2)
        projection = project(gram)
        if projection is None:
            return None
        bent = projection.multipliers if self._projected else (0.0,) * (len(counts) - 1)
        flat.combine([1.0, *(u * s for u, s in zip(bent, scale[1:], strict=True))])
        names = [TARGET, *self._rows]
        means = [loss / count if count else 0.0 for loss, count in zip(losses, counts, strict=True)]
        return Update(
            dict(zip(names, means, strict=True)),
            dict(zip(names, norms.tolist(), strict=True)),
            dict(zip(names[1:], bent, strict=True)),
        )

    def _look(self, target: Survey, progress: float) -> None:
        """Which images take part in this epoch, and as what."""
        assert target.features is not None
        predicted = target.logits.argmax(dim=1)
        pseudo = pseudo_labels(target.features, predicted, self._centroids)
        sure = functional.softmax(target.logits.double(), dim=1).amax(dim=1)
        agreed = pseudo.labels == predicted
        share = FIRST_SHARE + (LAST_SHARE - FIRST_SHARE) * progress
        # Ranked within the class among all images of it: a class that is hard to see must not vanish.
        rank = class_ranks(predicted, torch.where(agreed, sure, sure - 1))
        sizes = torch.bincount(predicted, minlength=len(self._centroids))
        limit = (share * sizes.clamp(max=2 * len(predicted) // len(self._centroids))).ceil().long()
        self.labels = torch.where(agreed & (rank < limit[predicted]), predicted, torch.full_like(predicted, NOT_YET))

    def remember(self, surveys: Surveys, data: EpisodeData, quota: MemorySettings) -> MemorySelection | None:
        """The target's most confident images."""
        return remember(surveys, data, quota)

    def tensors(self) -> dict[str, Tensor]:
        """This epoch's pseudo-labels, and the source's centroids."""
        return {"labels": self.labels, "centroids": self._centroids}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """As they were."""
        self.labels, self._centroids = tensors["labels"].clone(), tensors["centroids"].clone()
