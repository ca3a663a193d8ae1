"""Accuracy from agreement with check models, which have not learned from the model's pseudo-labels. Pure functions."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from adaptd.evaluation.intervals import wilson

Classes = NDArray[np.int64]

RELIABLE = 0.25
"""How far two check models must agree beyond chance to be heard."""
LEAST = 1e-3
"""An agreement beyond chance is taken to be this at least: it is divided by."""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """What two check models take the images of one domain for.

    Args:
        each: the classes that each of them gives, [n] each.
        together: the classes that both give together, [n].
        classes: how many there are.
    """

    each: tuple[Classes, Classes]
    together: Classes
    classes: int

    @property
    def is_reliable(self) -> bool:
        """Whether they know what they see: two that guess do not agree."""
        return _beyond_chance(agree(*self.each), self.classes) >= RELIABLE


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate and how far off it may be."""

    value: float
    low: float
    high: float


def agree(first: Classes, second: Classes) -> float:
    """The share of images that both give the same class."""
    return float(np.mean(first == second))


def triangulate(model: Classes, opinion: SecondOpinion) -> float:
    """The accuracy of a model from how far it and two check models agree, pair by pair (Platanios et al., 2014).

    With b = (K·accuracy − 1)/(K − 1), what an accuracy is beyond chance among K classes, and κ the same of an agreement:
    if mistakes were independent, κ_ij = bᵢ·bⱼ for each pair, hence b_model = √(κ_m1·κ_m2/κ_12). Check models make some mistakes
    together; then κ_12 is too large, and the estimate too low.
    """
    (first, second), classes = opinion.each, opinion.classes
    pairs = (model, first), (model, second), (first, second)
    with_first, with_second, between = (max(LEAST, _beyond_chance(agree(*pair), classes)) for pair in pairs)
    b = min(1.0, sqrt(with_first * with_second / between))
    return (b * (classes - 1) + 1) / classes


def make_range(agreement: float, confident: float, likely: float | None, n: int, level: float) -> Range:
    """Both estimators together, widened by the sampling error of so few images.

    Args:
        agreement: with the check models.
        confident: what ATC says.
        likely: the triangulated accuracy; None where the check models are not reliable: then the middle stands for it.
        n: how many images there are.
        level: of the interval.
    """
    value = (agreement + confident) / 2 if likely is None else likely
    low, high = min(agreement, value), max(confident, value)
    return Range(value, wilson(round(low * n), n, level)[0], wilson(round(high * n), n, level)[1])


def _beyond_chance(agreement: float, classes: int) -> float:
    return (classes * agreement - 1) / (classes - 1)
