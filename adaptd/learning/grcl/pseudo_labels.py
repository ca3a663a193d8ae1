"""Classes for an unlabelled domain: k-means in the encoder's feature space, seeded so that cluster c *is* class c.

Choosing which of the images to keep is `memory`'s business.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

SHARPNESS = 10.0
"""Factor on cosines before the softmax that turns them into a confidence. It orders images by their lead over the
runner-up cluster, and stays clear of 1.0 in float64."""


@dataclass(frozen=True, slots=True)
class PseudoLabels:
    """For each image its class [n], how sure that is [n], in (0, 1), and its cosine to each centroid [n, classes].

    Row i belongs to the i-th feature given.
    """

    labels: Tensor
    confidence: Tensor
    similarity: Tensor


def class_centroids(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Unit mean of the unit features of each class, [classes, d]; zeros for a class nobody is in."""
    return _centroids(features, _lengths(features), labels, classes)


def pseudo_labels(features: Tensor, predicted: Tensor, source_centroids: Tensor, iterations: int = 100) -> PseudoLabels:
    """Cluster a domain's images; deterministic.

    Args:
        features: [n, d] encoder features, of any length; may be a memory map, of which no copy is made.
        predicted: [n] the classifier's class for each image; their centroids are the seeds.
        source_centroids: [classes, d] seeds for classes that no image is predicted as.
        iterations: at most this many rounds; it mostly settles long before.
    """
    lengths, classes = _lengths(features), len(source_centroids)
    centroids = _or_else(_centroids(features, lengths, predicted, classes), source_centroids)
    labels = _nearest(features, lengths, centroids).argmax(dim=1)
    for _ in range(iterations):
        centroids = _or_else(_centroids(features, lengths, labels, classes), centroids)
        moved = _nearest(features, lengths, centroids).argmax(dim=1)
        if torch.equal(moved, labels):
            break
        labels = moved
    similarity = _nearest(features, lengths, centroids).double()
    confidence = functional.softmax(SHARPNESS * similarity, dim=1).gather(1, labels[:, None]).squeeze(1)
    return PseudoLabels(labels, confidence, similarity)


def _lengths(features: Tensor) -> Tensor:
    """[n, 1]; not quite 0, to be divided by."""
    lengths: Tensor = torch.linalg.vector_norm(features, dim=1, keepdim=True)
    return lengths.clamp_min(1e-12)


def _centroids(features: Tensor, lengths: Tensor, labels: Tensor, classes: int) -> Tensor:
    members = features.new_zeros(len(features), classes).scatter_(1, labels[:, None], 1 / lengths)
    return functional.normalize(members.T @ features, dim=1)


def _or_else(centroids: Tensor, fallback: Tensor) -> Tensor:
    """An empty cluster keeps the centroid it had."""
    empty = (centroids == 0).all(dim=1, keepdim=True)
    return torch.where(empty, fallback, centroids)


def _nearest(features: Tensor, lengths: Tensor, centroids: Tensor) -> Tensor:
    """Cosine to every centroid, [n, classes]; a class that has none anywhere attracts nobody."""
    absent = (centroids == 0).all(dim=1)
    return (features @ centroids.T).div_(lengths).masked_fill_(absent, -torch.inf)
