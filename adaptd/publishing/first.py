"""The first version has nothing to be compared with, but must have learnt something: what makes a source too weak. Pure."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from adaptd.evaluation.intervals import wilson

FEWEST = 3
"""A class with fewer held-out images says nothing by never being predicted."""

REMEDY = (
    "Run `adaptd source import DIR` again, with trained weights (--weights), more passes (--epochs) or more images of each class."
)


def find_weaknesses(predicted: NDArray[np.int64], labels: NDArray[np.int64], classes: Sequence[str]) -> Iterator[str]:
    """A sentence for each thing that makes a first version too weak to serve and to adapt from.

    Near chance: the 95 % interval of the accuracy on held-out images reaches 1 / classes. Where there are so few images that
    not even all of them right would be beyond it, only an accuracy at chance or below counts. And a class that is never
    predicted, though it has three held-out images or more.

    Args:
        predicted: classes of the source's held-out images, [n].
        labels: likewise.
        classes: their names.
    """
    n, right, chance = len(labels), int((predicted == labels).sum()), 1 / len(classes)
    low, high = wilson(right, n)
    reach = low if wilson(n, n)[0] > chance else right / n
    if reach <= chance:
        yield (
            f"The source model is near chance: {right / n:.1%} of {n} held-out images are right (95 % interval {low:.0%} to "
            f"{high:.0%}), and {chance:.1%} would be by guessing."
        )
    held_out, found = (np.bincount(each, minlength=len(classes)) for each in (labels, predicted))
    missed = [name for name, count, seen in zip(classes, held_out, found, strict=True) if count >= FEWEST and not seen]
    if missed:
        names = ", ".join(missed[:5]) + (f" and {len(missed) - 5} more" if len(missed) > 5 else "")
        yield f"The source model never predicts {names} on {n} held-out images."
