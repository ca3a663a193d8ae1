"""A GRCL step up to w: gradient sums part by part, then divided and projected. The step along w is taken elsewhere.

The contrastive loss is a sum over samples (bank keys carry no gradient), so g_t is the sum of its parts' gradients and
nothing is computed twice: one forward a part, one backward for the contrastive loss, one more for a constraint.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.grcl.flat import GradientRows
from adaptd.learning.grcl.loss import Contrast, contrastive_loss
from adaptd.learning.grcl.projection import Projection, project

IMAGES_PER_PASS = 128
"""Larger parts are taken in pieces: the sums are the same, activations stay small and nearer to the cache
(ResNet-18 at 64 px: 1.1 s for 256 images in pieces of 128, 1.5 s in one)."""


class Network(Protocol):
    """f, q and h of the paper."""

    def encode(self, images: Tensor) -> Tensor:
        """f_θ(x), [n, features]."""

    def embed(self, features: Tensor) -> Tensor:
        """normalise(q(f)), [n, d]."""

    def classify(self, features: Tensor) -> Tensor:
        """h(f), [n, classes]."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the batch: augmented images, their rows in the bank, and what they constrain.

    Args:
        images: [n, 3, H, W] in 0…1.
        rows: [n] rows of the bank.
        labels: [n] classes (true or pseudo); needed where there is a constraint.
        constraint: 1 … k, the gradient row of the cross-entropy constraint they belong to; 0: none.
    """

    images: Tensor
    rows: Tensor
    labels: Tensor | None = None
    constraint: int = 0

    def pieces(self) -> "Iterator[Part]":
        """The part in nearly equal pieces of at most IMAGES_PER_PASS."""
        count = ceil(len(self.rows) / IMAGES_PER_PASS)
        labels = self.labels.tensor_split(count) if self.labels is not None else [None] * count
        for images, rows, own in zip(self.images.tensor_split(count), self.rows.tensor_split(count), labels, strict=True):
            yield Part(images, rows, own, self.constraint)


@dataclass(frozen=True, slots=True)
class Sums:
    """What part-wise passes add up, beside the gradient rows; entry i belongs to row i. Ranks add up rows, counts and losses.

    Args:
        counts: [k] samples.
        losses: [k] in float64, as the counts.
        z: the samples' unit vectors, part by part; each rank keeps its own.
    """

    counts: Tensor
    losses: Tensor
    z: list[Tensor]


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step: mean losses and gradient norms (first contrastive, then the constraints), and the projection."""

    losses: tuple[float, ...]
    norms: tuple[float, ...]
    projection: Projection


def accumulate(network: Network, gradients: GradientRows, parts: Sequence[Part], contrast: Contrast) -> Sums:
    """Sum the gradients over the samples into rows that are clear: g_t in row 0, each constraint's in its own."""
    counts, losses = torch.zeros(2, len(gradients.rows), dtype=torch.float64)
    sums = Sums(counts, losses, [])
    for part in (piece for whole in parts for piece in whole.pieces()):
        features = network.encode(part.images)
        z = network.embed(features)
        loss = contrastive_loss(z, part.rows, contrast)
        gradients.backward(loss, retain_graph=part.constraint > 0)
        counts[0] += len(part.rows)
        losses[0] += loss.item()
        sums.z.append(z.detach())
        if part.constraint:
            assert part.labels is not None
            loss = functional.cross_entropy(network.classify(features), part.labels, reduction="sum")
            gradients.backward(loss, part.constraint)
            counts[part.constraint] += len(part.rows)
            losses[part.constraint] += loss.item()
    return sums


def divide_and_project(gradients: GradientRows, sums: Sums) -> Step | None:
    """Turn sums into means and project: w = g_t + Σ uᵢgᵢ (Eq. 11) ends in row 0. None if a value is not finite."""
    scale = torch.where(sums.counts > 0, 1 / sums.counts, 0.0)
    gram = gradients.gram() * torch.outer(scale, scale)
    projection = project(gram)
    if projection is None:
        return None
    coefficients = torch.tensor([1.0, *projection.multipliers], dtype=torch.float64) * scale
    gradients.combine(coefficients.tolist())
    losses = torch.where(sums.counts > 0, sums.losses / sums.counts, 0.0)
    return Step(tuple(losses.tolist()), tuple(gram.diagonal().sqrt().tolist()), projection)
