"""What adaptation methods share: how a batch is made up, the bank, and what is remembered. Gradients are each one's own."""

from torch import Tensor

from adaptd.learning.batches import Batch, EpisodeData, Pool
from adaptd.learning.grcl import Bank, Contrast, MemorySelection, pseudo_labels, select_memory
from adaptd.learning.methods.protocol import Trainee
from adaptd.learning.plan import Plan
from adaptd.learning.survey import Surveys
from adaptd.project.settings import MemorySettings, MethodSettings

SOURCE, MEMORY, TARGET = "source", "memory", "target"


def adaptation_pools(data: EpisodeData, plan: Plan, *, per_domain: bool = False) -> tuple[Pool, ...]:
    """Source, memories and target at the plan's ratio. With no memory its share goes to the target.

    Args:
        data: what there is.
        plan: the ratio.
        per_domain: a pool for each memory, so that every batch has images of each.
    """
    assert data.target is not None
    source = max(1, round(plan.batch_size * plan.source_share))
    memory = round(plan.batch_size * plan.memory_share)
    kept = [(i, images) for i, images in enumerate(data.memories) if len(images)] if memory else []
    pools = [Pool(SOURCE, (data.source,), 0, source)]
    if per_domain:
        each = max(1, memory // max(1, len(kept)))
        pools += [Pool(f"{MEMORY}-{i + 1}", (images,), data.first_row(i + 1), each) for i, images in kept]
    elif kept:
        pools.append(Pool(MEMORY, tuple(data.memories), data.first_row(1), memory))
    target = max(1, plan.batch_size - source - (memory if kept else 0))
    return (*pools, Pool(TARGET, (data.target,), data.first_row(len(data.memories) + 1), target))


def remember(surveys: Surveys, data: EpisodeData, quota: MemorySettings) -> MemorySelection | None:
    """The target's most confident images with their cluster's class. Every method keeps them, so that one may follow another."""
    if data.target is None or surveys.target is None:
        return None
    features, centroids = surveys.target.features, surveys.source.centroids
    assert features is not None
    assert centroids is not None
    pseudo = pseudo_labels(features, surveys.target.logits.argmax(dim=1), centroids)
    ids = pseudo.labels.new_tensor(data.target.ids)
    return select_memory(ids, pseudo, quota.images_per_domain, quota.per_class_cap)


class Contrastive:
    """A method with a feature bank. Subclasses say how the losses become one gradient."""

    trains_statistics = False
    settled = False
    trainee: Trainee
    settings: MethodSettings
    bank: Bank

    def __init__(self, name: str) -> None:
        self.name = name

    def pools(self, data: EpisodeData, plan: Plan) -> tuple[Pool, ...]:
        """Source, memory and target."""
        return adaptation_pools(data, plan)

    def prepare(self, trainee: Trainee, pools: tuple[Pool, ...], plan: Plan) -> None:  # noqa: ARG002  # the protocol's
        """Nothing to build."""
        self.trainee, self.settings = trainee, plan.method

    def begin(self, surveys: Surveys) -> None:
        """Fill the bank with the model's own view of every image (Eq. 2)."""
        self.bank = Bank(surveys.keys(), self.settings.bank_momentum)

    def contrast(self, batch: Batch) -> Contrast:
        """This step's negatives."""
        negatives = self.bank.draw(self.settings.negatives, batch.chance("negatives"))
        return Contrast(self.bank, negatives, self.settings.temperature)

    def remember(self, surveys: Surveys, data: EpisodeData, quota: MemorySettings) -> MemorySelection | None:
        """The target's most confident images."""
        return remember(surveys, data, quota)

    def tensors(self) -> dict[str, Tensor]:
        """The bank."""
        return {"bank": self.bank.keys}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The bank as it was."""
        self.bank = Bank(tensors["bank"], self.settings.bank_momentum)
        self.bank.keys.copy_(tensors["bank"])  # normalising a unit vector again may change its last bit
