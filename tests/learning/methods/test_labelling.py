"""What a model takes images for, and which of them are learned from."""

import torch
from torch.nn import functional

from adaptd.learning.methods.labelling import NOT_YET, Labelling, choose, label, spread_memory
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
