"""What a model takes images for, which of them are learned from, and when it had better not."""

import pytest
import torch
from torch.nn import functional

from adaptd.errors import DomainNotRecognised
from adaptd.learning.methods.labelling import NOT_YET, Labelling, choose, label, spread_memory
from adaptd.learning.methods.trust import check_recognised, kappa
from adaptd.learning.seeding import generator
from adaptd.learning.settings import MemorySettings


def clouds(count: int = 60, noise: float = 0.1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features around three directions, their classes, and the directions."""
    centres = torch.eye(3, 8)
    classes = torch.arange(count) % 3
    return centres[classes] + noise * torch.randn(count, 8, generator=generator(0, "cloud")), classes, centres


def test_clusters_and_neighbours_correct_the_classifier():
    """Where a third of the classifier's answers is wrong, features that fall into clear clusters bring back the truth."""
    features, truth, centres = clouds()
    told = torch.where(torch.arange(60) % 5 == 0, (truth + 1) % 3, truth)
    probabilities = 0.8 * functional.one_hot(told, 3).double() + 0.2 / 3
    found = label(probabilities, features, centres, generator(0, "neighbours"))
    assert (told != truth).any()
    assert torch.equal(found.labels, truth)
    without = label(probabilities, features, centres, None)
    assert torch.equal(without.labels, told)
    assert bool((without.sureness[told != truth] == 0).all())


def test_the_surest_of_each_class_are_chosen():
    """Each class has its own places, the surest first, and no class more than twice its even share."""
    labels = torch.tensor([0] * 30 + [1] * 6)
    sureness = torch.linspace(0.1, 0.9, 36, dtype=torch.float64)
    chosen = choose(Labelling(labels, sureness, 1.0), 0.5, 4) != NOT_YET
    assert chosen[:30].sum() == 9, "half of twice the even share"
    assert bool(chosen[21:30].all()), "the surest of them"
    assert chosen[30:].tolist() == [False] * 3 + [True] * 3
    assert not (choose(Labelling(labels, torch.zeros(36), 1.0), 1.0, 4) != NOT_YET).any(), "not sure at all"


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


def test_the_refusal_says_what_to_do():
    """A domain that is not recognised is refused with the figure and the setting."""
    with pytest.raises(
        DomainNotRecognised, match=r"agree by 0\.12 beyond chance, and method\.guarded\.min_agreement asks for 0\.35"
    ):
        check_recognised(0.12, 0.35, "method.guarded.min_agreement")
    check_recognised(0.35, 0.35, "method.guarded.min_agreement")


def test_a_memory_is_spread_over_classes_and_sureness():
    """Each class gets its even part, a small class all it has; the surest and the least sure of a class are both kept."""
    labels = torch.tensor([0] * 50 + [1] * 50 + [2] * 4 + [NOT_YET] * 10)
    sureness = torch.linspace(0, 1, 114, dtype=torch.float64)
    ids = torch.arange(114).flip(0) * 10
    memory = spread_memory(ids, labels, sureness, MemorySettings(images_per_domain=24))
    assert torch.bincount(memory.labels).tolist() == [10, 10, 4]
    assert {int(ids[0]), int(ids[49])} <= set(memory.ids.tolist())
    assert torch.equal(memory.confidence, memory.confidence.sort(descending=True).values)
    assert len(spread_memory(ids, labels, sureness, MemorySettings(images_per_domain=24, per_class_cap=3))) == 9
    assert len(spread_memory(ids, labels, sureness, MemorySettings(images_per_domain=1000))) == 104
