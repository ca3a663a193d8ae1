"""Predictions do not depend on batching or mode, and leave the model as it was."""

import numpy as np
import pytest
import torch
from torch import nn

from adaptd.evaluation.evaluator import measure, predict
from adaptd.library.imageset import ImageSet


@pytest.fixture
def model():
    """Small, with parts that act differently in training; one of them frozen in eval mode."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 5))
    network.train()
    network[1].eval()
    return network


@pytest.fixture
def images():
    """23 noisy labelled images, read-only like a cache."""
    noise = np.random.default_rng(0)
    pixels = noise.integers(0, 256, (23, 3, 8, 8), dtype=np.uint8)
    pixels.flags.writeable = False
    return ImageSet(np.arange(23), pixels, noise.integers(0, 5, 23))


def test_logits_are_those_of_eval_mode(model, images):
    """Whatever the batch size, the logits are the model's on images scaled to 0 … 1, row for row."""
    found = [predict(model, images, size) for size in (1, 7, 23, 100)]
    with torch.no_grad():
        expected = model.eval()(torch.tensor(images.pixels.astype(np.float32) / 255)).numpy()
    for logits in found:
        assert logits.shape == (23, 5)
        np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_modes_and_statistics_are_left_alone(model, images):
    """Training parts train again afterwards, frozen ones stay frozen, statistics do not move, also after an error."""
    before = {key: value.clone() for key, value in model.state_dict().items()}
    predict(model, images, 8)
    with pytest.raises(RuntimeError):
        predict(model, ImageSet(images.ids, images.pixels[:, :, :5]), 8)
    assert [module.training for module in model] == [True, False, True, True, True]
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_accuracy_is_divided_by_the_images(model, images):
    """Correct and n are exact, with a last batch that is not full."""
    labels = predict(model, images, 23).argmax(axis=1)
    labels[:3] = (labels[:3] + 1) % 5
    found = measure(model, ImageSet(images.ids, images.pixels, labels), 8)
    assert (found.correct, found.n, found.accuracy) == (20, 23, 20 / 23)


def test_without_labels_or_images_nothing_is_measured(model, images):
    """Unlabelled and empty sets are errors, not zeros."""
    with pytest.raises(ValueError, match="labelled"):
        measure(model, images.unlabelled(), 8)
    with pytest.raises(ValueError, match="no images"):
        predict(model, ImageSet(images.ids[:0], images.pixels[:0]), 8)
