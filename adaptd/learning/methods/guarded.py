"""Guarded self-training: learn from the target's own pseudo-labels, along directions that hurt neither source nor memories.

Described in docs/method.md. The paper's constraints stay as they are; what is inside them is another objective.
"""

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.augment import blend, draw_warp, warp
from adaptd.learning.batches import Batch, EpisodeData, Pool
from adaptd.learning.grcl import MemorySelection
from adaptd.learning.grcl.projection import project
from adaptd.learning.methods.foundation import MEMORY, SOURCE, TARGET, adaptation_pools
from adaptd.learning.methods.labelling import NOT_YET, Labelling, choose, label, spread_memory
from adaptd.learning.methods.protocol import Trainee, Update
from adaptd.learning.methods.trust import check_recognised
from adaptd.learning.plan import Plan
from adaptd.learning.seeding import generator
from adaptd.learning.survey import Survey, Surveys, mean_probabilities, survey
from adaptd.project.settings import MemorySettings

LEAST_SHARE = 0.2
"""Share of the images that is learned from however little is agreed on."""

GAIN = 0.005
"""Agreement is better than ever when it is so by as much."""


class Guarded:
    """Cross-entropy on source, memories and the target's surest images, projected so that no constraint's loss rises.

    Each epoch the model looks at the whole target again. Classifier, clusters and neighbours say what an image is; the surest of
    each class take part, and the better the witnesses agree, the more of them. What is learned from is warped, and partly shone
    through by other target images.
    """

    trains_statistics = False
    trainee: Trainee
    plan: Plan
    labels: Tensor
    _agreements: Tensor
    _target: Pool
    _centroids: Tensor

    def __init__(self, name: str = "guarded", *, projected: bool = True) -> None:
        self.name = name
        self._projected = projected

    @property
    def settled(self) -> bool:
        """Whether the last looks showed nothing new."""
        patience = self.plan.method.patience
        older, recent = self._agreements[:-patience], self._agreements[-patience:]
        return patience > 0 and len(older) > 0 and bool(recent.max() < older.max() + GAIN)

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
        self._agreements = torch.empty(0, dtype=torch.float64)
        weights = {SOURCE: plan.method.source_weight, MEMORY: plan.method.memory_weight}
        self._weights = [1.0, *(weights[pool.name] for pool in pools[:-1])]

    def begin(self, surveys: Surveys) -> None:
        """Pseudo-labels for the first epoch."""
        assert surveys.target is not None
        assert surveys.source.centroids is not None
        self._centroids = surveys.source.centroids
        self._look(surveys.target, 0)

    def update(self, batch: Batch) -> Update | None:
        """The objective's gradient, bent as far as the constraints ask for."""
        epoch_steps = self._target.slices
        if batch.step and batch.step % epoch_steps == 0:
            self._look(survey(self.trainee.model, self._target.sets[0]), batch.step // epoch_steps)
        flat = self.trainee.flat
        flat.clear()
        losses, counts = [0.0] * len(self._weights), [0] * len(self._weights)
        for part, strong in zip(batch.parts, self._strengthen(batch), strict=True):
            row = self._rows.get(part.name, 0)
            labels = part.labels if part.labels is not None else self.labels[part.rows - self._target.first_row]
            used = labels != NOT_YET
            if not bool(used.any()):
                continue
            images, labels = (strong, labels) if bool(used.all()) else (strong[used], labels[used])
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

    def _strengthen(self, batch: Batch) -> list[Tensor]:
        """The images of each part as they are learned from: warped, and all but the source's shone through by target images."""
        chance, method = batch.chance("warp"), self.plan.method
        warped = [warp(part.images, draw_warp(len(part.images), chance), method.warp) for part in batch.parts]
        return [warped[0], *(blend(images, warped[-1], method.blend, chance) for images in warped[1:])]

    def _look(self, target: Survey, epoch: int) -> None:
        """Which images take part in this epoch, and as what."""
        labelling, self.labels = self._judge(target, epoch)
        if epoch == 0:
            check_recognised(labelling.agreement, self.plan.method.min_agreement)
        self._agreements = torch.cat([self._agreements, torch.tensor([labelling.agreement], dtype=torch.float64)])

    def _judge(self, target: Survey, epoch: int) -> tuple[Labelling, Tensor]:
        """What the images are, and the labels of those that are sure enough."""
        assert target.features is not None
        method = self.plan.method
        chance = generator(self.plan.seed, "neighbours", epoch) if method.propagate else None
        labelling = label(self._see(target, epoch), target.features, self._centroids, chance)
        # The more classifier and clusters agree, the more of the labels are right.
        share = max(LEAST_SHARE, 2 * labelling.agreement - 1) if method.curriculum else 1.0
        return labelling, choose(labelling, share, len(self._centroids))

    def _see(self, target: Survey, epoch: int) -> Tensor:
        """Class probabilities of every target image: the mean over it and warped views of it."""
        chance = generator(self.plan.seed, "views", epoch)

        def change(images: Tensor) -> Tensor:
            return warp(images, draw_warp(len(images), chance), 1.0)

        first = functional.softmax(target.logits.double(), dim=1)
        return mean_probabilities(self.trainee.model, self._target.sets[0], first, change, self.plan.method.views - 1)

    def remember(self, surveys: Surveys, data: EpisodeData, quota: MemorySettings) -> MemorySelection | None:
        """An even sample, class by class, of the images that would take part next: also those that are not so easy."""
        assert surveys.target is not None
        assert data.target is not None
        labelling, chosen = self._judge(surveys.target, self.plan.epochs)
        return spread_memory(chosen.new_tensor(data.target.ids), chosen, labelling.sureness, quota)

    def tensors(self) -> dict[str, Tensor]:
        """This epoch's pseudo-labels, the source's centroids, and how well the looks agreed."""
        return {"labels": self.labels, "centroids": self._centroids, "agreements": self._agreements}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """As they were."""
        self.labels, self._centroids = tensors["labels"].clone(), tensors["centroids"].clone()
        self._agreements = tensors["agreements"].clone()
