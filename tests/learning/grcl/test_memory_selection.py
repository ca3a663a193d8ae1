"""Pseudo-labels and which images are remembered."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptd.learning.grcl import PseudoLabels, class_centroids, pseudo_labels, select_memory

AXES = torch.eye(3)


def around(axes: list[int], spread: float = 0.05, seed: int = 0) -> torch.Tensor:
    """Features near the given axes, of various lengths."""
    generator = torch.Generator().manual_seed(seed)
    noise = spread * torch.randn(len(axes), 3, generator=generator)
    return (AXES[axes] + noise) * (1 + torch.rand(len(axes), 1, generator=generator))


def test_cluster_c_is_class_c():
    """Clusters keep the class they were seeded with, and correct the images the classifier got wrong."""
    truth = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    predicted = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0])
    found = pseudo_labels(around(truth), predicted, AXES)
    assert found.labels.tolist() == truth
    assert ((found.confidence > 0) & (found.confidence < 1)).all()


def test_a_class_nobody_is_predicted_as_starts_from_the_source():
    """A class missing among the predictions is found through its source centroid."""
    truth = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    predicted = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 0])
    assert pseudo_labels(around(truth), predicted, AXES).labels.tolist() == truth


def test_an_empty_cluster_keeps_its_centroid_and_an_absent_class_attracts_nobody():
    """A class without images stays empty; one without any centroid is never assigned and poisons nothing."""
    truth = [0, 0, 1, 1]
    features, predicted = around(truth), torch.tensor(truth)
    assert pseudo_labels(features, predicted, AXES).labels.tolist() == truth
    without_third = torch.cat([AXES[:2], torch.zeros(1, 3)])
    found = pseudo_labels(features, predicted, without_third)
    assert found.labels.tolist() == truth
    assert torch.isfinite(found.confidence).all()


def test_clear_images_are_surer_than_border_images():
    """An image halfway between two clusters is less sure than one at its centre."""
    features = torch.cat([around([0, 0, 0, 1, 1, 1], spread=0.01), torch.tensor([[1.0, 0.9, 0.0]])])
    found = pseudo_labels(features, torch.tensor([0, 0, 0, 1, 1, 1, 0]), AXES)
    assert found.confidence[-1] < found.confidence[:-1].min()


def test_centroids_by_hand():
    """The centroid of a class is the unit mean of its members; a class without members has none."""
    features = torch.tensor([[3.0, 0.0], [0.0, 3.0], [0.0, 5.0]])
    centroids = class_centroids(features, torch.tensor([0, 0, 1]), 3)
    torch.testing.assert_close(centroids, torch.tensor([[0.5**0.5, 0.5**0.5], [0.0, 1.0], [0.0, 0.0]]))


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_labels_follow_image_ids_through_any_shuffle(seed):
    """Whatever order the images come in, each id keeps its own pseudo-label and its place in the memory."""
    truth = [0, 1, 2] * 6
    features, ids = around(truth, spread=0.3), torch.arange(100, 118)
    predicted = torch.tensor(truth)
    shuffle = torch.randperm(18, generator=torch.Generator().manual_seed(seed))
    plain = select_memory(ids, pseudo_labels(features, predicted, AXES), quota=10)
    mixed = select_memory(ids[shuffle], pseudo_labels(features[shuffle], predicted[shuffle], AXES), quota=10)
    assert dict(zip(plain.ids.tolist(), plain.labels.tolist(), strict=True)) == dict(
        zip(mixed.ids.tolist(), mixed.labels.tolist(), strict=True)
    )


CONFIDENCE = torch.tensor([0.9, 0.8, 0.9, 0.5, 0.6], dtype=torch.float64)
PSEUDO = PseudoLabels(torch.tensor([0, 0, 0, 1, 1]), CONFIDENCE, torch.empty(5, 0))
IDS = torch.tensor([30, 20, 10, 50, 40])


@pytest.mark.parametrize(
    ("quota", "cap", "kept"),
    [(3, 0, [10, 30, 20]), (3, 1, [10, 40]), (3, 2, [10, 30, 40]), (99, 0, [10, 30, 20, 40, 50])],
)
def test_the_most_confident_images_are_kept(quota, cap, kept):
    """Most confident first, ties by id, at most `cap` of a class; a quota beyond the domain keeps everything."""
    memory = select_memory(IDS, PSEUDO, quota, cap)
    assert memory.ids.tolist() == kept
    label_of = dict(zip(IDS.tolist(), PSEUDO.labels.tolist(), strict=True))
    assert memory.labels.tolist() == [label_of[i] for i in kept]
