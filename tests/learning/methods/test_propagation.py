"""Label propagation."""

import pytest
import torch

from adaptd.learning.methods import propagation
from adaptd.learning.methods.propagation import propagate
from adaptd.learning.seeding import generator


def two_rings(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two groups of directions far from each other, and which group each is in."""
    group = torch.arange(count) % 2
    centre = torch.stack([torch.tensor([1.0, 0, 0]), torch.tensor([0, 1.0, 0])])
    return centre[group] + 0.05 * torch.randn(count, 3, generator=generator(0, "ring")), group


@pytest.mark.parametrize("landmarks", [1000, 100], ids=["all", "sample"])
def test_the_many_outvote_the_few(monkeypatch, landmarks):
    """One image in ten with the wrong label takes its neighbours' class, also where only a sample can be a neighbour."""
    monkeypatch.setattr(propagation, "LANDMARKS", landmarks)
    features, group = two_rings(400)
    told = torch.where(torch.arange(400) % 10 == 0, 1 - group, group)
    before = torch.nn.functional.one_hot(told, 2).double() * 0.8 + 0.1
    after = propagate(features, before, generator(0, "landmarks"))
    assert torch.equal(after.argmax(dim=1), group)
    torch.testing.assert_close(after.sum(dim=1), torch.ones(400, dtype=torch.float64))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_images(count):
    """With hardly any neighbours, what comes out is still probabilities."""
    features, _ = two_rings(count)
    after = propagate(features, torch.full((count, 4), 0.25, dtype=torch.float64), generator(0, "landmarks"))
    torch.testing.assert_close(after, torch.full((count, 4), 0.25, dtype=torch.float64))


def test_the_same_again():
    """Twice the same call gives the same bits: a resumed episode must not differ."""
    features, group = two_rings(300)
    before = torch.nn.functional.one_hot(group, 2).double()
    assert torch.equal(*(propagate(features, before, generator(0, "landmarks")) for _ in range(2)))


def test_blocks_of_any_size_give_the_same(monkeypatch):
    """How many images are looked at at a time is nobody's business: the last bits aside, the result is the same."""
    features, group = two_rings(300)
    before = torch.nn.functional.one_hot(group, 2).double()
    whole = propagate(features, before, generator(0, "landmarks"))
    monkeypatch.setattr(propagation, "_ROWS", 7)
    torch.testing.assert_close(propagate(features, before, generator(0, "landmarks")), whole, rtol=1e-12, atol=1e-12)
