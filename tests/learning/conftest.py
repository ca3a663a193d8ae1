"""Small image sets and settings: coloured 16-pixel squares, three classes."""

import numpy as np
import pytest
import torch

from adaptd.learning.methods.settings import MethodSettings
from adaptd.learning.settings import AugmentationSettings, MemorySettings, ModelSettings, SourceSettings, TrainingSettings
from adaptd.library.imageset import ImageSet
from adaptd.project.settings import Settings

CONTRASTIVE = ("grcl", "contrastive_sdc", "contrastive_source", "contrastive_source_memory")


def _squares(count: int, first_id: int, tint: int = 0, classes: int = 3, *, labelled: bool = True) -> ImageSet:
    """Class c is bright in channel c; the domain's tint is added to all. Ids come shuffled, as in real life."""
    rng = np.random.default_rng(first_id)
    labels = np.arange(count) % classes
    pixels = rng.integers(0, 90, (count, 3, 16, 16)) + tint
    pixels[np.arange(count), labels] += 100
    ids = first_id + rng.permutation(count)
    return ImageSet(ids.astype(np.int64), pixels.astype(np.uint8), labels.astype(np.int64) if labelled else None)


def _settings(backbone: str = "lenet5", options: dict | None = None, **training) -> Settings:
    """Everything small; the rest by default. Options are those of each method, by the name of its section."""
    small = {name: {"negatives": 20} for name in CONTRASTIVE}
    merged = {name: small.get(name, {}) | (options or {}).get(name, {}) for name in {*small, *(options or {})}}
    return Settings(
        model=ModelSettings(backbone=backbone, image_size=16, classes=("r", "g", "b"), projector_hidden=16, projector_output=8),
        augmentation=AugmentationSettings(shift=0.1),
        source=SourceSettings(epochs=4, batch_size=16, learning_rate=0.005),
        # Most models here are fresh: what they predict before the first step is no class that they could lose.
        training=TrainingSettings(**{"epochs": 2, "batch_size": 16, "threads": 1, "max_lost_classes": 1.0} | training),
        method=MethodSettings.model_validate(merged),
        memory=MemorySettings(images_per_domain=10),
    )


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny tensors gain nothing from threads, and waiting for each other on a busy machine costs them everything."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def squares():
    """Make an image set."""
    return _squares


@pytest.fixture
def settings():
    """Make settings."""
    return _settings
