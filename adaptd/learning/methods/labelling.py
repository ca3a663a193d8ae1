"""What a model takes an unlabelled domain's images for, how sure that is, and which of them are learned from.

Three sources: the classifier, over several views of each image; the clusters of its features; and each image's neighbours.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.grcl import MemorySelection, class_ranks, pseudo_labels
from adaptd.learning.health import kappa
from adaptd.learning.methods.propagation import propagate
from adaptd.learning.settings import MemorySettings

NOT_YET = -1
"""The pseudo-label of an image that is not learned from yet."""

SHARPNESS = 30.0
"""Factor on cosines to the clusters' centroids before the softmax that makes them probabilities."""


@dataclass(frozen=True, slots=True)
class Labelling:
    """For each image its class [n] and how sure that is [n]; and how far classifier and clusters agree beyond chance."""

    labels: Tensor
    sureness: Tensor
    agreement: float


def label(probabilities: Tensor, features: Tensor, source_centroids: Tensor, generator: torch.Generator | None) -> Labelling:
    """Classes by all of them together.

    Args:
        probabilities: [n, classes] by the classifier.
        features: [n, d] by the encoder.
        source_centroids: [classes, d] for clusters that no image is predicted as.
        generator: for the neighbours; None: they are not asked, and an image on which the others disagree is not sure at all.
    """
    classes = len(source_centroids)
    sure, predicted = probabilities.max(dim=1)
    clusters = pseudo_labels(features, predicted, source_centroids)
    agreement = kappa(predicted, clusters.labels, classes)
    if generator is None:
        return Labelling(predicted, torch.where(clusters.labels == predicted, sure, 0.0), agreement)
    by_cluster = functional.softmax(SHARPNESS * clusters.similarity, dim=1)
    sure, labels = propagate(features, (probabilities + by_cluster) / 2, generator).max(dim=1)
    return Labelling(labels, sure, agreement)


def choose(labelling: Labelling, share: float, classes: int) -> Tensor:
    """The labels of the surest share of each class, NOT_YET for the others.

    Ranked within the class: one that is hard to see must not vanish. No class gets more than twice its even share.
    """
    labels = labelling.labels
    sizes = torch.bincount(labels, minlength=classes)
    limit = (share * sizes.clamp(max=2 * len(labels) // classes)).ceil().long()
    chosen = (class_ranks(labels, labelling.sureness) < limit[labels]) & (labelling.sureness > 0)
    return torch.where(chosen, labels, torch.full_like(labels, NOT_YET))


def spread_memory(ids: Tensor, labels: Tensor, sureness: Tensor, quota: MemorySettings) -> MemorySelection:
    """A memory of the labelled images: as many of each class, from the surest to the least sure at even distances.

    Args:
        ids: [n] image ids.
        labels: [n], NOT_YET where there is none.
        sureness: [n].
        quota: how many to keep.
    """
    rows = (labels != NOT_YET).nonzero().squeeze(1)
    # The surest first, ties by id; then each class's own ranks.
    rows = rows[ids[rows].argsort()]
    rows = rows[sureness[rows].argsort(descending=True, stable=True)]
    kept = []
    for name, places in enumerate(_share_out(torch.bincount(labels[rows]).tolist(), quota.images_per_domain)):
        members = rows[labels[rows] == name]
        wanted = min(places, quota.per_class_cap or places)
        kept.append(members[torch.linspace(0, len(members) - 1, wanted).round().long()] if wanted else members[:0])
    every = torch.cat(kept) if kept else rows
    every = every[sureness[every].argsort(descending=True, stable=True)]
    return MemorySelection(ids[every], labels[every], sureness[every].double())


def _share_out(sizes: list[int], total: int) -> list[int]:
    """Places for each class: the same for all, and what a small class leaves goes to the others."""
    places = [0] * len(sizes)
    left = min(total, sum(sizes))
    for done, number in enumerate(sorted(range(len(sizes)), key=lambda number: sizes[number])):
        places[number] = min(sizes[number], left // (len(sizes) - done))
        left -= places[number]
    return places
