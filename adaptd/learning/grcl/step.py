"""One GRCL step up to w: gradient sums part by part, divided, projected. The optimizer that follows is not here.

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

from adaptd.learning.grcl.flat import FlatParameters
from adaptd.learning.grcl.loss import Contrast, contrastive_loss
from adaptd.learning.grcl.projection import Projection, project

IMAGES_PER_PASS = 128
"""Larger parts are taken in pieces: the sums are the same, activations stay small and nearer to the cache
(ResNet-18 at 64 px: 1.1 s for 256 images in pieces of 128, 1.5 s in one)."""


class Network(Protocol):
    """f, q and h of the paper."""

    def encode(self, images: Tensor) -> Tensor:
        """f_θ(x), [n, features]."""

    def project(self, features: Tensor) -> Tensor:
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


@dataclass(slots=True)
class Sums:
    """What part-wise passes add up, beside the gradient rows; entry i belongs to row i. Ranks would add these too."""

    counts: list[int]
    losses: list[float]
    z: list[Tensor]


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step: mean losses and gradient norms (first contrastive, then the constraints), and the projection."""

    losses: tuple[float, ...]
    norms: tuple[float, ...]
    projection: Projection


def grcl_step(network: Network, flat: FlatParameters, parts: Sequence[Part], contrast: Contrast) -> Step | None:
    """Leave w in row 0 of `flat` and move the bank; None, and nothing moved, if a value is not finite."""
    sums = accumulate(network, flat, parts, contrast)
    # Several ranks would add up flat.rows and sums here: projecting before that would find another active set.
    step = divide_and_project(flat, sums)
    if step is not None:
        contrast.bank.update([part.rows for part in parts], sums.z)
    return step


def accumulate(network: Network, flat: FlatParameters, parts: Sequence[Part], contrast: Contrast) -> Sums:
    """Sum the gradients over the samples: g_t in row 0, each constraint's in its own."""
    flat.clear()
    sums = Sums([0] * len(flat.rows), [0.0] * len(flat.rows), [])
    for part in (piece for whole in parts for piece in whole.pieces()):
        features = network.encode(part.images)
        z = network.project(features)
        loss = contrastive_loss(z, part.rows, contrast)
        flat.accumulate_into(0)
        torch.autograd.backward(loss, retain_graph=part.constraint > 0)
        sums.counts[0] += len(part.rows)
        sums.losses[0] += loss.item()
        sums.z.append(z.detach())
        if part.constraint:
            assert part.labels is not None
            loss = functional.cross_entropy(network.classify(features), part.labels, reduction="sum")
            flat.accumulate_into(part.constraint)
            torch.autograd.backward(loss)
            sums.counts[part.constraint] += len(part.rows)
            sums.losses[part.constraint] += loss.item()
    return sums


def divide_and_project(flat: FlatParameters, sums: Sums) -> Step | None:
    """Turn sums into means and project: w = g_t + Σ uᵢgᵢ (Eq. 8) ends in row 0. None if a value is not finite."""
    scale = torch.tensor([1 / count if count else 0.0 for count in sums.counts], dtype=torch.float64)
    gram = flat.gram() * torch.outer(scale, scale)
    projection = project(gram)
    if projection is None:
        return None
    coefficients = torch.tensor([1.0, *projection.multipliers], dtype=torch.float64) * scale
    flat.combine(coefficients.tolist())
    losses = tuple(loss / count if count else 0.0 for loss, count in zip(sums.losses, sums.counts, strict=True))
    return Step(losses, tuple(gram.diagonal().sqrt().tolist()), projection)
