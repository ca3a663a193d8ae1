"""How a model's predictions on a set of images look, in figures that need no labels; and what a collapse looks like in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.errors import PredictionsCollapsed
from adaptd.learning.grcl import pseudo_labels

FEWEST = 5
"""A class that fewer images are taken for says nothing by its absence."""


POORER = 0.9
"""Balance has fallen where it is less than this share of what it was."""


@dataclass(frozen=True, slots=True)
class Health:
    """Predictions on some images, without labels.

    Args:
        images: how many.
        agreement: Cohen's κ of the predicted classes and the clusters of the features: how far they agree beyond chance.
        balance: entropy of the predicted classes, 1 where each is predicted as often. Of the classes, not of the mean
            probabilities: those are even too where the model is unsure of everything.
        classes: how many are predicted at all often: for a fifth of the even share.
        largest: the share of the images that the most frequent class is predicted for.
        spread: variance of the unit features; 0 where all images are alike to the model.
        nuclear_norm: of the matrix of probabilities (BNM), as a share of the greatest possible: high where predictions are both
            sure and varied.
        confidence: mean probability of the predicted class.
    """

    images: int
    agreement: float
    balance: float
    classes: int
    largest: float
    spread: float
    nuclear_norm: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a set: its health, the number of images that each class is predicted for, and the steps done before it."""

    health: Health
    counts: tuple[int, ...]
    step: int = 0


def kappa(first: Tensor, second: Tensor, classes: int) -> float:
    """Cohen's κ of two labellings: 1 where they agree on every image, 0 where they agree as often as chance would."""
    shares = [functional.one_hot(labels, classes).double().mean(dim=0) for labels in (first, second)]
    agreed, by_chance = (first == second).double().mean().item(), torch.dot(*shares).item()
    return (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


def examine(logits: Tensor, features: Tensor, step: int = 0) -> Look:
    """Health from what a model makes of each image, [n, classes] and [n, d]; deterministic."""
    n, classes = logits.shape
    # A model that has exploded has figures too: reports are JSON, which knows no NaN.
    logits, features = logits.nan_to_num(), features.nan_to_num()
    probabilities = functional.softmax(logits.double(), dim=1)
    sure, predicted = probabilities.max(dim=1)
    clusters = pseudo_labels(features, predicted, features.new_zeros(classes, features.shape[1]))
    counts = torch.bincount(predicted, minlength=classes)
    shares = counts.double() / n
    centre = functional.normalize(features.double(), dim=1).mean(dim=0)
    health = Health(
        images=n,
        agreement=kappa(predicted, clusters.labels, classes),
        balance=float(torch.special.entr(shares).sum()) / log(classes),
        classes=int((shares >= 0.2 / classes).sum()),
        largest=float(shares.max()),
        spread=1 - float(centre.square().sum()),
        nuclear_norm=float(torch.linalg.matrix_norm(probabilities, "nuc")) / sqrt(n * min(n, classes)),
        confidence=float(sure.mean()),
    )
    return Look(health, tuple(counts.tolist()), step)


def find_lost(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Classes that many images were taken for (half the even share, and FEWEST at least), and less than a tenth as many after."""
    many = max(FEWEST, sum(before) / len(before) / 2)
    return [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if old >= many and new < old / 10]


def check_collapse(looks: Sequence[Look], classes: Sequence[str], max_lost: float) -> None:
    """Stop an episode that unlearns classes on the domain that it adapts to.

    Args:
        looks: at the same images: the first one, and those that count.
        classes: their names.
        max_lost: the share of the classes that were predicted at first and may be lost; one of three or more always may.

    Raises:
        PredictionsCollapsed: more are lost at every look that counts, and predictions are less balanced than they were.
    """
    first, *others = looks
    lost = [find_lost(first.counts, each.counts) for each in others]
    had = sum(count > 0 for count in first.counts)
    # A model that takes other classes for those it gave up has changed its mind, and has not collapsed.
    poorer = all(each.health.balance < POORER * first.health.balance for each in others)
    allowed = max(max_lost * had, 1 if had > 2 else 0)
    if others and poorer and all(len(each) > allowed for each in lost):
        names = ", ".join(classes[number] for number in lost[-1])
        raise PredictionsCollapsed(
            f"the predictions on this domain collapse: {len(lost[-1])} of {had} classes are hardly predicted any more ({names}), "
            f"and training.max_lost_classes allows {max_lost:.0%} of them. If the folder has no such images, raise it and "
            f"`adaptd retry` the domain; else lower training.learning_rate or choose another method"
        )
