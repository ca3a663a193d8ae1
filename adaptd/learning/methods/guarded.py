"""Guarded self-training: learn from the target's own pseudo-labels, along directions that hurt neither source nor memories.

Described in docs/method.md. The paper's constraints stay as they are; what is inside them is another objective.
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.augment import draw_warp, mixup, warp
from adaptd.learning.batches import Batch
from adaptd.learning.grcl import MemorySelection, project
from adaptd.learning.methods.base import Method, Update
from adaptd.learning.methods.foundation import MEMORY, SOURCE, TARGET
from adaptd.learning.methods.labelling import NOT_YET, Labelling, choose, label, spread_memory
from adaptd.learning.methods.options import GuardedOptions
from adaptd.learning.methods.registry import section_name
from adaptd.learning.seeding import generator
from adaptd.learning.stepper import NotFinite, Stepper
from adaptd.learning.survey import Survey, Surveys, mean_probabilities, survey
from adaptd.learning.trust import Trust, check_recognised

LEAST_SHARE = 0.2
"""Share of the images that is learned from however little is agreed on."""

GAIN = 0.005
"""Agreement is better than ever when it is so by as much."""


class Guarded(Method[GuardedOptions]):
    """Cross-entropy on source, memories and the target's surest images, projected so that no constraint's loss rises.

    Each epoch the model looks at the whole target again. Classifier, clusters and neighbours say what an image is; the surest of
    each class take part, and the better they agree, the more of them. What is learned from is warped, and partly mixed with other
    target images.
    """

    projected: ClassVar[bool] = True
    kept = ("labels", "centroids", "agreements")
    stepper: Stepper
    labels: Tensor
    """This epoch's pseudo-labels."""
    centroids: Tensor
    """The source's, before the first step."""
    agreements: Tensor
    """How far classifier and clusters agreed at each look."""

    @property
    def converged(self) -> bool:
        """Whether the last looks showed nothing new."""
        patience = self.options.patience
        older, recent = self.agreements[:-patience], self.agreements[-patience:]
        return patience > 0 and len(older) > 0 and bool(recent.max() < older.max() + GAIN)

    @property
    def look_images(self) -> int:
        """The whole target, in every view."""
        return self.options.views * len(self._target)

    def build(self) -> None:
        """A row for the target and one for each constraint; the projector has no part in any of the losses."""
        self._target = self.pools[-1]
        self._rows = {pool.name: number for number, pool in enumerate(self.pools[:-1], 1)}
        weights = {SOURCE: self.options.source_weight, MEMORY: self.options.memory_weight}
        self._weights = [1.0, *(weights[pool.name] for pool in self.pools[:-1])]
        self.stepper = self.train("encoder", "classifier", rows=len(self.pools))

    def check(self, trust: Trust) -> None:
        """Refuse a domain whose pseudo-labels would teach mistakes."""
        check_recognised(trust, self.options.min_agreement, f"method.{section_name(self.name)}.min_agreement")

    def begin(self, surveys: Surveys) -> None:
        """Pseudo-labels for the first epoch."""
        assert surveys.target is not None
        assert surveys.source.centroids is not None
        self.centroids = surveys.source.centroids
        self.agreements = torch.empty(0, dtype=torch.float64)
        self.look(surveys.target, 0)

    def begin_epoch(self, epoch: int) -> Survey:
        """Look at the whole target again."""
        target = survey(self.model, self._target.sets[0])
        self.look(target, epoch)
        return target

    def look(self, target: Survey, epoch: int) -> None:
        """Decide which images take part in this epoch, and as what."""
        labelling, chosen = self._judge(target, epoch)
        self.labels = chosen.to(self.plan.device)
        self.agreements = torch.cat([self.agreements, torch.tensor([labelling.agreement], dtype=torch.float64)])

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Steps need the labels; looks are the processor's business."""
        super().restore(tensors)
        self.centroids, self.agreements = self.centroids.cpu(), self.agreements.cpu()

    def update(self, batch: Batch) -> Update:
        """The objective's gradient, bent as far as the constraints ask for."""
        counts, losses = torch.zeros(2, len(self._weights), dtype=torch.float64)
        for part, strong in zip(batch.parts, self._strengthen(batch), strict=True):
            row = self._rows.get(part.name, 0)
            labels = part.labels if part.labels is not None else self.labels[part.rows - self._target.first_row]
            used = labels != NOT_YET
            if not bool(used.any()):
                continue
            images, labels = (strong, labels) if bool(used.all()) else (strong[used], labels[used])
            loss = functional.cross_entropy(self.model(images), labels, reduction="sum")
            self.stepper.backward(loss, row)
            losses[row] += loss.item()
            counts[row] += len(labels)
        self.stepper.reduce(counts, losses)
        return self._combine(losses.tolist(), counts.tolist())

    def _combine(self, losses: list[float], counts: list[float]) -> Update:
        """From g = g_target + Σ λᵢgᵢ the nearest w = g + Σ uᵢgᵢ, u ≥ 0, along which no constraint's loss rises.

        Nearest, and along, in the metric of the step that follows.
        """
        stepper = self.stepper
        scale = [1 / count if count else 0.0 for count in counts]
        norms = stepper.gram().diagonal().sqrt() * torch.tensor(scale, dtype=torch.float64)
        if not bool(norms.isfinite().all()):
            raise NotFinite
        stepper.combine([weight * s for weight, s in zip(self._weights, scale, strict=True)])
        scale[0] = 1.0  # row 0 is g now
        stepper.observe()
        gram = stepper.gram(stepper.metric) * torch.outer(*[torch.tensor(scale, dtype=torch.float64)] * 2)
        projection = project(gram)
        if projection is None:
            raise NotFinite
        bent = projection.multipliers if self.projected else (0.0,) * (len(counts) - 1)
        stepper.combine([1.0, *(u * s for u, s in zip(bent, scale[1:], strict=True))])
        names = [TARGET, *self._rows]
        means = [loss / count if count else 0.0 for loss, count in zip(losses, counts, strict=True)]
        return Update(
            dict(zip(names, means, strict=True)),
            dict(zip(names, norms.tolist(), strict=True)),
            dict(zip(names[1:], bent, strict=True)),
        )

    def _strengthen(self, batch: Batch) -> list[Tensor]:
        """The images of each part as they are learned from: warped, and all but the source's mixed with target images."""
        random, options = batch.generator("warp"), self.options
        strength = 0.0 if batch.made else options.warp
        warped = [warp(part.images, draw_warp(len(part.images), random), strength) for part in batch.parts]
        return [warped[0], *(mixup(images, warped[-1], options.mixup, random) for images in warped[1:])]

    def _judge(self, target: Survey, epoch: int) -> tuple[Labelling, Tensor]:
        """What the images are, and the labels of those that are sure enough."""
        assert target.features is not None
        neighbours = generator(self.plan.seed, "neighbours", epoch) if self.options.propagate else None
        labelling = label(self._see(target, epoch), target.features, self.centroids, neighbours)
        # The more classifier and clusters agree, the more of the labels are right.
        share = max(LEAST_SHARE, 2 * labelling.agreement - 1) if self.options.curriculum else 1.0
        return labelling, choose(labelling, share, len(self.centroids))

    def _see(self, target: Survey, epoch: int) -> Tensor:
        """Class probabilities of every target image: the mean over it and warped views of it."""
        random = generator(self.plan.seed, "views", epoch)

        def change(images: Tensor) -> Tensor:
            return warp(images, draw_warp(len(images), random), 1.0)

        return mean_probabilities(self.model, self._target.sets[0], target, change, self.options.views - 1)

    def remember(self, surveys: Surveys) -> MemorySelection | None:
        """An even sample, class by class, of the images that would take part next: also those that are not so easy."""
        assert surveys.target is not None
        assert self.data.target is not None
        labelling, chosen = self._judge(surveys.target, self.plan.epochs)
        return spread_memory(chosen.new_tensor(self.data.target.ids), chosen, labelling.sureness, self.plan.memory)


class SelfTraining(Guarded):
    """The same without the projection."""

    projected = False
