"""Check models on trained features: two linear classifiers, each of one half of the features, and what they make of a domain.

A backbone that was trained on millions of photographs knows more of them than a small network learns from a source. Its features
are taken as they are published, so they know nothing of any domain; each domain's own mean and scale are taken out, and the two
halves teach each other (co-training). Arrays in, classes out: who computes features, and what is kept, is `headchecks`'.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]
Matrix = NDArray[np.float64]
Classes = NDArray[np.int64]

RIDGE = 10.0
"""Added to the diagonal of the covariance, in units of its mean."""
ROUNDS = 3
FLOOR = 0.1
"""Share of the mean deviation that is added to each feature's."""
HALVES_SEED = 0
TINY = 1e-9
"""Keeps features that tell nothing from being divided by."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The classes that each of the two gives, that both give together, and that they give once they have taught each other."""

    each: tuple[Classes, Classes]
    together: Classes
    taught: Classes


def ask_heads(source: Features, labels: Classes, domain: Features, asked: Features, classes: int) -> Answers:
    """What two heads say of images.

    Args:
        source: features of labelled images at unit length, [n, d], as all of them.
        labels: their classes, [n].
        domain: features of the images that the domain is learned from, [m, d].
        asked: features of the images that are asked about, of the same domain.
        classes: how many there are.
    """
    known, own, questions = standardise(source, source), standardise(domain, domain), standardise(asked, domain)
    weights = 1 / np.bincount(labels, minlength=classes)[labels]
    heads = [_fit(known, labels, weights, half, classes) for half in _halve(source.shape[1])]
    scores = [questions @ head for head in heads]
    for _ in range(ROUNDS):
        heads = _teach(heads, known, labels, own, classes)
    first, second = (_vote([score]) for score in scores)
    return Answers((first, second), _vote(scores), _vote([questions @ head for head in heads]))


def standardise(features: Features, domain: Features) -> Matrix:
    """Features less the mean of a domain's, by their deviation."""
    spread = domain.std(axis=0, dtype=np.float64)
    found: Matrix = (features - domain.mean(axis=0, dtype=np.float64)) / (spread + FLOOR * spread.mean() + TINY)
    return found


def to_unit_length(features: Features) -> Features:
    """Each image's, so that bright ones with much in them count no more than others."""
    found: Features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), TINY)
    return found


def _vote(scores: Sequence[Matrix]) -> Classes:
    """The class that all of them together score highest."""
    best: Classes = np.sum(scores, axis=0).argmax(axis=1)
    return best


def _teach(heads: list[Matrix], known: Matrix, labels: Classes, own: Matrix, classes: int) -> list[Matrix]:
    """Heads that have learned from the source, and as much from what these agree on."""
    scores = [own @ head for head in heads]
    guessed = _vote(scores)
    rows = np.flatnonzero(np.all([score.argmax(axis=1) == guessed for score in scores], axis=0))
    if not len(rows):
        return heads
    balanced = 1 / np.bincount(labels, minlength=classes)[labels]
    weights = np.concatenate([balanced / balanced.sum(), np.full(len(rows), 1 / len(rows))])
    images, taught = np.concatenate([known, own[rows]]), np.concatenate([labels, guessed[rows]])
    return [_fit(images, taught, weights, half, classes) for half in _halve(known.shape[1])]


def _fit(images: Matrix, labels: Classes, weights: Matrix, half: Classes, classes: int) -> Matrix:
    """Ridge regression on the classes, by some of the features, [d, classes]: the others have no weight."""
    seen = images[:, half]
    weighted = (seen * (weights / weights.sum())[:, None]).T
    covariance = weighted @ seen
    covariance[np.diag_indices_from(covariance)] += RIDGE * np.trace(covariance) / len(covariance) + TINY
    head = np.zeros((images.shape[1], classes))
    head[half] = np.linalg.solve(covariance, weighted @ (np.eye(classes)[labels] - 1 / classes))
    return head


def _halve(features: int) -> tuple[Classes, Classes]:
    order = np.random.default_rng(HALVES_SEED).permutation(features)
    return order[: features // 2], order[features // 2 :]
