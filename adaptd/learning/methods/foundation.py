"""What adaptation methods share: how a batch is made up, and what is remembered. Gradients are each one's own."""

from adaptd.learning.batches import EpisodeData, Pool
from adaptd.learning.grcl import MemorySelection, pseudo_labels, select_memory
from adaptd.learning.plan import Plan
from adaptd.learning.settings import MemorySettings
from adaptd.learning.survey import Surveys

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


def most_confident(surveys: Surveys, data: EpisodeData, quota: MemorySettings) -> MemorySelection | None:
    """The target's most confident images with their cluster's class. Every method keeps them, so that one may follow another."""
    if data.target is None or surveys.target is None:
        return None
    features, centroids = surveys.target.features, surveys.source.centroids
    assert features is not None
    assert centroids is not None
    pseudo = pseudo_labels(features, surveys.target.logits.argmax(dim=1), centroids)
    ids = pseudo.labels.new_tensor(data.target.ids)
    return select_memory(ids, pseudo, quota.images_per_domain, quota.per_class_cap)
