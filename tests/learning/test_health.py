"""Health without labels, and what a collapse looks like in it."""

import dataclasses
import json

import pytest
import torch

from adaptd.errors import PredictionsCollapsed
from adaptd.learning.health import Look, check_collapse, examine, find_lost, kappa


def look(classes: list[int], of: int = 3, sharpness: float = 9.0) -> Look:
    """Images of these classes around as many directions, recognised as such."""
    eye = torch.eye(of)[torch.tensor(classes)]
    return examine(sharpness * eye, eye + 0.01 * torch.randn(len(classes), of, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(
    ("second", "expected"),
    [([0, 0, 1, 1], 1.0), ([1, 1, 0, 0], -1.0), ([0, 1, 0, 1], 0.0), ([0, 0, 0, 0], 0.0)],
    ids=["same", "opposite", "independent", "one-class"],
)
def test_kappa(second, expected):
    """κ is 1 for the same labels, 0 for chance, also where one class alone is named, and below for worse."""
    assert kappa(torch.tensor([0, 0, 1, 1]), torch.tensor(second), 2) == pytest.approx(expected)


def test_one_class_twice_is_no_agreement():
    """Two witnesses who only ever say the same word have agreed on nothing."""
    assert kappa(torch.zeros(5, dtype=torch.long), torch.zeros(5, dtype=torch.long), 3) == 0.0


def test_an_even_set_that_is_recognised_is_at_its_best():
    """Sure, varied predictions that follow the clusters: everything is near 1, and classes are counted."""
    seen = look([0, 1, 2] * 20)
    assert seen.counts == (20, 20, 20)
    health = seen.health
    assert (health.images, health.classes, health.agreement) == (60, 3, 1.0)
    assert min(health.balance, health.nuclear_norm, health.confidence) > 0.99
    assert health.largest == pytest.approx(1 / 3)


def test_one_class_alone_shows():
    """Balance, agreement and spread fall to nothing, the nuclear norm to its least; sureness stays."""
    health = look([1] * 60).health
    assert (health.agreement, health.classes, health.largest) == (0.0, 1, 1.0)
    assert health.balance == pytest.approx(0.0)
    assert health.spread < 0.01
    assert health.nuclear_norm == pytest.approx((1 / 3) ** 0.5, abs=0.01)
    assert health.confidence > 0.99


def test_unsure_predictions_have_a_small_nuclear_norm():
    """As varied, and less sure: the norm tells, the balance does not."""
    sure, unsure = look([0, 1, 2] * 20).health, look([0, 1, 2] * 20, sharpness=0.5).health
    assert unsure.balance == sure.balance
    assert unsure.nuclear_norm < 0.7 * sure.nuclear_norm


def test_values_that_are_not_finite_are_survived():
    """A model that answers NaN is another check's business; its figures can be written as JSON, which knows no NaN."""
    health = examine(torch.full((9, 3), torch.nan), torch.full((9, 2), torch.nan)).health
    json.dumps(dataclasses.asdict(health), allow_nan=False)


def test_lost_classes():
    """Frequent before and hardly there after; what was rare before is not missed."""
    assert find_lost([40, 40, 4, 36], [90, 4, 0, 26]) == []
    assert find_lost([40, 40, 4, 36], [90, 3, 0, 27]) == [1]
    assert find_lost([4, 4, 4], [12, 0, 0]) == [], "too few to tell"


def test_a_collapse_is_told_by_its_classes():
    """More than the share allowed and more than one of three, at every look that counts; seen again at one look is enough."""
    whole, poorer, lost = look([0, 1, 2] * 20), look([0] * 30 + [2] * 30), look([0] * 60)
    with pytest.raises(PredictionsCollapsed, match=r"2 of 3 classes are hardly predicted any more \(g, b\).*allows 25%"):
        check_collapse([whole, lost, lost], "rgb", 0.25)
    with pytest.raises(PredictionsCollapsed, match="1 of 2 classes"):
        check_collapse([look([0, 1] * 30, of=2), look([0] * 60, of=2)], "rg", 0.25)
    check_collapse([whole, poorer, poorer], "rgb", 0.25)
    check_collapse([whole, lost, lost], "rgb", 0.7)
    check_collapse([whole, lost, whole], "rgb", 0.25)
    check_collapse([whole], "rgb", 0.25)
    check_collapse([poorer, look([1] * 30 + [2] * 30)], "rgb", 0.25)  # another mind, as balanced
