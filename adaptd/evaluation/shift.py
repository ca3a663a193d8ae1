"""Two samples of images as a model sees them: can they be told apart? What follows from that is for `novelty`. No torch here.

Outputs are tested class by class: black-box shift detection with soft predictions (Rabanser et al. 2019, arXiv:1810.11953).
Features are given to a small domain classifier, whose AUC says how far apart the samples are.
"""

from dataclasses import dataclass
from math import exp, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

DIRECTIONS = 32
"""The domain classifier sees this many principal directions of the features: more would let it learn 50 images by heart."""
SHRINKAGE = 0.1
"""Share of the mean variance that is added to every direction's."""
POWER_STEPS = 3
FOLDS = 5
RESAMPLES = 100
"""How often the reference is compared with itself, to learn which AUC is usual where nothing is new."""


@dataclass(frozen=True, slots=True)
class View:
    """Images as a model sees them: features, [n, d], and logits, [n, classes]."""

    features: NDArray[np.float32]
    logits: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: NDArray[np.int64]) -> "View":
        """Some of them."""
        return View(self.features[rows], self.logits[rows])


@dataclass(frozen=True, slots=True)
class OutputShift:
    """The class whose probability differs most: its index, the largest distance of the two distributions, and p over all."""

    index: int
    distance: float
    p: float


@dataclass(frozen=True, slots=True)
class FeatureShift:
    """AUC of a domain classifier, 0.5 where it can only guess, the AUC usual in the reference itself, and p."""

    auc: float
    usual: float
    p: float


def compare_outputs(drop: View, reference: View) -> OutputShift:
    """Kolmogorov and Smirnov's test on the probability of each class; p is Bonferroni's, over the classes."""
    first, second = softmax(drop.logits), softmax(reference.logits)
    distances = [ks_distance(one, other) for one, other in zip(first.T, second.T, strict=True)]
    index = int(np.argmax(distances))
    p = ks_probability(distances[index], len(drop), len(reference))
    return OutputShift(index, distances[index], min(1.0, p * len(distances)))


def compare_features(drop: View, reference: View, seed: int) -> FeatureShift:
    """A domain classifier between a drop and a reference, against what it reaches within the reference at the same sizes."""
    chance = np.random.default_rng(seed)
    size = min(len(drop), len(reference) // 2)
    drawn = chance.permutation(len(drop))[:size]
    points = _project(np.concatenate([drop.features[drawn], reference.features]).astype(np.float64), chance)
    mine, others = points[:size], points[size:]
    usual = np.array([_resample(others, size, chance) for _ in range(RESAMPLES)])
    rest = chance.permutation(len(others))[size:]
    auc = cross_validated_auc(mine, others[rest], chance)
    least = sqrt((len(others) + 1) / (12 * size * (len(others) - size)))  # of ranks that mean nothing
    spread = max(float(usual.std(ddof=1)), least)
    return FeatureShift(auc, float(usual.mean()), 1 - NormalDist().cdf((auc - float(usual.mean())) / spread))


def softmax(logits: NDArray[np.float32]) -> Matrix:
    """Probabilities, [n, classes]."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def ks_distance(first: Matrix, second: Matrix) -> float:
    """The largest difference of two empirical distribution functions."""
    points = np.concatenate([first, second])
    below = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (first, second)]
    return float(np.abs(below[0] - below[1]).max())


def ks_probability(distance: float, n: int, m: int) -> float:
    """How likely chance makes a distance this large: Kolmogorov's series, with Stephens's correction for small samples."""
    root = sqrt(n * m / (n + m))
    z = (root + 0.12 + 0.11 / root) * distance
    if z < 0.2:  # the series needs ever more terms, and is 1
        return 1.0
    series = sum((1.0 if j % 2 else -1.0) * exp(-2 * (j * z) ** 2) for j in range(1, 101))
    return min(1.0, max(0.0, 2 * series))


def cross_validated_auc(first: Matrix, second: Matrix, chance: np.random.Generator) -> float:
    """AUC of a linear discriminant on images that it was not fitted to, in folds."""
    folds = [chance.permutation(np.arange(len(sample)) % FOLDS) for sample in (first, second)]
    scores = [np.empty(len(sample)) for sample in (first, second)]
    for fold in range(FOLDS):
        direction = _discriminate(first[folds[0] != fold], second[folds[1] != fold])
        for sample, values, fold_of in zip((first, second), scores, folds, strict=True):
            values[fold_of == fold] = sample[fold_of == fold] @ direction
    return rank_auc(scores[0], scores[1])


def rank_auc(first: Matrix, second: Matrix) -> float:
    """How often one of the first scores higher than one of the second, ties counted half."""
    ordered = np.sort(second)
    below = np.searchsorted(ordered, first, side="left") + np.searchsorted(ordered, first, side="right")
    return float(below.mean() / (2 * len(second)))


def _discriminate(first: Matrix, second: Matrix) -> Matrix:
    """Fisher's direction, with a shrunk covariance."""
    means = first.mean(axis=0), second.mean(axis=0)
    centred = np.concatenate([first - means[0], second - means[1]])
    covariance = centred.T @ centred / len(centred)
    ridge = SHRINKAGE * np.trace(covariance) / len(covariance) + 1e-12
    return np.linalg.solve(covariance + ridge * np.eye(len(covariance)), means[0] - means[1])


def _project(features: Matrix, chance: np.random.Generator) -> Matrix:
    """The principal directions of all points together, found by power iteration: features may be long."""
    centred = features - features.mean(axis=0)
    directions = chance.standard_normal((centred.shape[1], min(2 * DIRECTIONS, *centred.shape)))
    for _ in range(POWER_STEPS):
        directions, _ = np.linalg.qr(centred.T @ (centred @ directions))
    points = centred @ directions
    _, _, order = np.linalg.svd(points, full_matrices=False)
    return points @ order[:DIRECTIONS].T  # type: ignore[no-any-return]


def _resample(points: Matrix, size: int, chance: np.random.Generator) -> float:
    """The AUC between some of the reference and its rest."""
    rows = chance.permutation(len(points))
    return cross_validated_auc(points[rows[:size]], points[rows[size:]], chance)
