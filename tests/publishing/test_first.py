"""When a first version is too weak."""

import numpy as np
import pytest

from adaptd.project.settings import GateSettings
from adaptd.publishing.first import REMEDY, find_weaknesses
from adaptd.publishing.gate import Comparison, judge

CLASSES = ("cat", "dog", "owl")


def weak(predicted: list[int], truth: list[int], classes=CLASSES) -> str:
    """All sentences about such predictions."""
    return " ".join(find_weaknesses(np.array(predicted), np.array(truth), classes))


@pytest.mark.parametrize(
    ("right", "n", "is_weak"),
    [(30, 30, False), (17, 30, False), (14, 30, True), (10, 30, True), (400, 1000, False), (350, 1000, True)],
)
def test_near_chance_is_where_the_interval_reaches_guessing(right, n, is_weak):
    """With three classes, 14 of 30 may be luck; 400 of 1,000 are not."""
    truth = np.arange(n) % 3
    predicted = np.where(np.arange(n) < right, truth, (truth + 1) % 3)
    assert bool(weak(predicted.tolist(), truth.tolist())) is is_weak


def test_few_images_are_not_blamed_for_being_few():
    """Two of two right say nothing against a model; one of two is what guessing reaches."""
    assert weak([0, 1], [0, 1], ("cat", "dog")) == ""
    assert "near chance: 50.0% of 2 held-out images" in weak([0, 0], [0, 1], ("cat", "dog"))


def test_a_class_that_is_never_predicted_is_named():
    """However good the rest is; but not where it has hardly any images."""
    truth = [0] * 20 + [1] * 20
    assert "never predicts owl on 43 held-out images" in weak([*truth, 0, 0, 1], [*truth, 2, 2, 2])
    assert weak([*truth, 0, 0], [*truth, 2, 2]) == ""


def test_the_gate_refuses_a_weak_first_version_alone():
    """With the remedy; one that is as weak as the promoted version is compared with that instead."""
    truth, guessed = np.arange(30) % 3, np.zeros(30, dtype=np.int64)
    outcome = judge([Comparison("source", "test", guessed, None, truth)], GateSettings(), CLASSES)
    assert not outcome.passed
    assert "never predicts dog, owl" in outcome.reasons[1]
    assert outcome.reasons[-1] == REMEDY
    assert judge([Comparison("source", "test", guessed, guessed, truth)], GateSettings(), CLASSES).passed
