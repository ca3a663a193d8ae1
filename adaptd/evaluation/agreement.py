"""Accuracy from agreement with check models, which have not learned from the model's pseudo-labels. Pure functions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptd.evaluation.intervals import wilson

Classes = NDArray[np.int64]

RELIABLE = 0.25
"""How far two check models must agree beyond chance to be heard."""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """What two check models take the images of one domain for.

    Args:
        each: the classes that each of them gives, [n] each.
        together: the classes that both give together, [n].
        taught: the same after they have taught each other the domain; None where they are not reliable.
        classes: how many there are.
        heard: False where they are known to be of no use, whatever they agree on.
    """

    each: tuple[Classes, Classes]
    together: Classes
    classes: int
    taught: Classes | None = None
    heard: bool = True

    @property
    def is_reliable(self) -> bool:
        """Whether they know what they see, before they have learned from each other: two that guess do not agree."""
        return self.heard and _beyond_chance(agree(*self.each), self.classes) >= RELIABLE


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate and how far off it may be."""

    value: float
    low: float
    high: float


def agree(first: Classes, second: Classes) -> float:
    """The share of images that both give the same class."""
    return float(np.mean(first == second))


def make_range(agreement: float, confident: float, likely: float | None, n: int, level: float) -> Range:
    """Both estimators together, widened by the sampling error of so few images.

    Args:
        agreement: with the check models, which know the source alone.
        confident: what ATC says.
        likely: agreement with those that taught each other the domain; None where they are not reliable: then the middle
            stands for it.
        n: how many images there are.
        level: of the interval.
    """
    value = (agreement + confident) / 2 if likely is None else likely
    low, high = min(agreement, value), max(confident, value)
    return Range(value, wilson(round(low * n), n, level)[0], wilson(round(high * n), n, level)[1])


def _beyond_chance(agreement: float, classes: int) -> float:
    return (classes * agreement - 1) / (classes - 1)
