"""Accuracies from agreement with check models, on predictions whose accuracy is known."""

import numpy as np
import pytest

from adaptd.evaluation.agreement import SecondOpinion, make_range

CLASSES, N = 10, 20_000


def answers(rng: np.random.Generator, truth: np.ndarray, accuracy: float) -> np.ndarray:
    """Predictions of this accuracy, with mistakes at random."""
    wrong = (truth + rng.integers(1, CLASSES, len(truth))) % CLASSES
    return np.where(rng.random(len(truth)) < accuracy, truth, wrong)


def test_check_models_that_guess_are_not_reliable():
    """Two that know something agree more than by chance."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, CLASSES, N)
    for accuracy, reliable in ((0.1, False), (0.9, True)):
        first, second = (answers(rng, truth, accuracy) for _ in range(2))
        assert SecondOpinion((first, second), first, CLASSES).is_reliable is reliable


def test_a_range_reaches_from_the_pessimistic_to_the_optimistic_end():
    """It holds the estimate, grows with fewer images, and without reliable checks the middle stands in."""
    wide, narrow = (make_range(0.6, 0.9, 0.7, n, 0.95) for n in (50, 5000))
    assert wide.low < narrow.low < 0.6
    assert 0.9 < narrow.high < wide.high
    assert wide.value == narrow.value == 0.7
    assert make_range(0.6, 0.9, None, 100, 0.95).value == pytest.approx(0.75)
    unsure = make_range(0.6, 0.1, 0.7, 100, 0.95)
    assert unsure.low < 0.6 < unsure.value < unsure.high < 0.8
