"""Real digits, trained-looking models, and cards for them."""

import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import torch

from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.settings import ModelSettings
from adaptd.library.imageset import ImageSet
from adaptd.library.preprocessing import Preprocessing
from adaptd.publishing.card import Ancestor, Card, Facts, GateOutcome, Parity, RowEntry, software_versions

DIGITS = Path(os.environ.get("ADAPTD_BENCH_DATA", "../shared/data")) / "digits"
CLASSES = tuple("0123456789")


def _digits(domain: str, count: int, size: int = 32) -> ImageSet:
    """The first test images of a domain, made larger by repeating pixels where a backbone wants that."""
    path = DIGITS / f"{domain}.npz"
    if not path.exists():
        pytest.skip(f"no digits at {path}: set ADAPTD_BENCH_DATA")
    with np.load(path) as file:
        pixels, labels = file["x_test"][:count], file["y_test"][:count]
    pixels = pixels.transpose(0, 3, 1, 2).repeat(size // 32, axis=2).repeat(size // 32, axis=3)
    return ImageSet(np.arange(count, dtype=np.int64), np.ascontiguousarray(pixels), labels.astype(np.int64))


def _model(backbone: str, images: ImageSet, steps: int = 10) -> Classifier:
    """A classifier after some steps on real images, with BatchNorm statistics of such images."""
    size = images.pixels.shape[2]
    settings = ModelSettings(backbone=backbone, image_size=size, classes=CLASSES, projector_hidden=16, projector_output=8)
    model = build_classifier(settings)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    for step in range(steps):
        batch, labels = _batch(images, step)
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # a plain mean over the batches below
    with torch.no_grad():
        for step in range(4):
            model(_batch(images, step)[0])
    return model


def _batch(images: ImageSet, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = np.arange(step * 32, step * 32 + 32) % len(images)
    return torch.from_numpy(images.pixels[rows]).float() / 255, torch.from_numpy(images.labels[rows])


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Small networks gain nothing from threads, and waiting for each other on a busy machine costs them everything."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _facts(version: int = 1, model: str = "digits", size: int = 32, classes: tuple[str, ...] = CLASSES) -> Facts:
    """What is known of a version before it is exported."""
    return Facts(
        model=model,
        version=version,
        parent=version - 1 or None,
        episode=version - 1,
        domain="mnist",
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        backbone="lenet5",
        classes=classes,
        preprocessing=Preprocessing(size),
        lineage=tuple(Ancestor(version=v, episode=v - 1, domain="source") for v in range(1, version)),
        row=(RowEntry(domain="source", value=0.9, kind="measured", n=100, low=0.83, high=0.94),),
        weights_sha256="ab" * 32,
        config_hash="cd" * 32,
    )


def _card(facts: Facts, model_sha256: str) -> Card:
    """The card to publish with."""
    return Card(
        **dict(facts),
        gate=GateOutcome(passed=True, reasons=("nothing was promoted before.",)),
        parity=Parity(exporter="torchscript", max_error=1e-7, equal_argmax=1, ties=0, tolerance=1e-4, images={"source": 9}),
        model_sha256=model_sha256,
        versions=software_versions(),
    )


@pytest.fixture(scope="session")
def digits():
    """Real images of a domain."""
    return _digits


@pytest.fixture(scope="session")
def trained():
    """Make a model."""
    return _model


@pytest.fixture(scope="session")
def facts():
    """Make facts."""
    return _facts


@pytest.fixture
def card():
    """Make a card."""
    return _card
