"""Heads on trained features: real weights and real photographs, small; what is kept, and what happens without the weights."""

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from adaptd.evaluation.agreement import agree, make_range
from adaptd.evaluation.checkfiles import CheckFiles
from adaptd.evaluation.checkheads import ask_heads
from adaptd.evaluation.checks import Checks
from adaptd.learning.backbones import build_classifier
from adaptd.learning.origins import LITE0_MEAN, LITE0_STD, PACKAGE
from adaptd.learning.settings import ModelSettings
from adaptd.learning.weights import Trained, find_trained, save_classifier
from adaptd.library.imageset import ImageSet
from adaptd.records import Domain, DomainState

MOMENT = datetime.now(UTC)
SOURCE, DUSK = (Domain(i, name, i, DomainState.DONE, None, 0, 0, MOMENT, MOMENT) for i, name in enumerate(("source", "dusk")))
SIDE = 64
CLASSES = ("temple", "flower")


def crops(n: int, seed: int, *, dusk: bool = False) -> ImageSet:
    """Pieces of scikit-learn's two photographs; at dusk they are dark and blue, without contrast."""
    rng = np.random.default_rng(seed)
    photographs = [load_sample_image(f"{name}.jpg").transpose(2, 0, 1) for name in ("china", "flower")]
    labels = np.arange(n, dtype=np.int64) % 2
    pixels = np.empty((n, 3, SIDE, SIDE), np.uint8)
    for row, label in enumerate(labels):
        side = int(rng.integers(150, 300))
        top, left = (int(rng.integers(0, most - side)) for most in photographs[label].shape[1:])
        piece = photographs[label][:, top : top + side, left : left + side]
        at = np.linspace(0, side - 1, SIDE).astype(int)
        pixels[row] = piece[:, at][:, :, at]
    if dusk:
        pixels = (pixels * np.array([0.25, 0.3, 0.5])[:, None, None] + 30).astype(np.uint8)
    return ImageSet(np.arange(n, dtype=np.int64), pixels, labels)


@dataclass
class Images:
    """A labelled source, and a domain whose held-out images are others than those that are learned from."""

    known: ImageSet
    own: ImageSet
    held_out: ImageSet
    source: Domain = SOURCE

    def open_train(self, domain: Domain) -> ImageSet:
        """With labels for the source alone."""
        return self.known if domain == SOURCE else self.own.unlabelled()

    def open_unlabelled(self, _: Domain) -> ImageSet:
        """The held-out ones."""
        return self.held_out.unlabelled()


@pytest.fixture(scope="module")
def images() -> Images:
    """The same for all tests."""
    return Images(crops(40, 0), crops(40, 1, dusk=True), crops(60, 2, dusk=True))


@pytest.fixture
def random_weights(tmp_path) -> Path:
    """A file as a user may name it; its features know nothing, and answer all the same."""
    path = tmp_path / "start.safetensors"
    path.write_bytes(save_classifier(build_classifier(mobilenet(), seed=1)))
    return path


def mobilenet() -> ModelSettings:
    """The smallest backbone that has published weights."""
    return ModelSettings(backbone="mobilenet_v3_small", image_size=SIDE, classes=CLASSES, weights="start.safetensors")


def test_the_estimate_on_photographs_is_near_the_truth(images):
    """For a model whose mistakes are known: with real weights from the package it is told within 6 points, in its range."""
    settings = ModelSettings(
        backbone="efficientnet_lite0", image_size=SIDE, mean=LITE0_MEAN, std=LITE0_STD, classes=CLASSES, weights=PACKAGE
    )
    opinion = Checks(images, 2, 16, trained=find_trained(settings, Path())).ask(DUSK)
    assert opinion.is_reliable
    assert opinion.taught is not None
    labels = images.held_out.labels
    model = np.where(np.random.default_rng(3).random(len(labels)) < 0.3, 1 - labels, labels)
    likely = agree(model, opinion.taught)
    found = make_range(agree(model, opinion.together), 0.95, likely, len(labels), 0.95)
    true = agree(model, labels)
    assert abs(found.value - true) < 0.06
    assert found.low < true < found.high


def test_each_domain_loses_its_own_mean_and_halves_teach_each_other():
    """Classes that differ in a few directions, in a domain that is moved and stretched far beyond their distance."""
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(4, 32))

    def draw(n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(0, 4, n)
        return (middles[labels] + noise * rng.normal(size=(n, 32)) + 8).astype(np.float32), labels

    (source, labels), (domain, truth) = draw(80, 1.0), draw(300, 1.5)
    moved = (domain * rng.uniform(0.5, 2, 32) + rng.normal(size=32) * 3).astype(np.float32)
    answers = ask_heads(source, labels, moved, moved, 4)
    alone = [np.mean(each == truth) for each in answers.each]
    assert np.mean(answers.together == truth) > max(alone)
    assert np.mean(answers.taught == truth) > max(alone)
    assert np.mean(answers.taught == truth) > 0.8


def test_answers_are_kept_and_made_anew(images, random_weights, tmp_path, monkeypatch):
    """A known domain needs no weights; another source, other weights under the same name, or damage need them again."""
    trained = find_trained(mobilenet(), random_weights.parent)
    assert trained is not None
    loaded: list[Path | str] = []
    load = Trained.load
    monkeypatch.setattr(Trained, "load", lambda self: (loaded.append(self.weights), load(self))[1])
    folder = tmp_path / "checks"

    def ask(given: Images = images, *, learned: bool = False) -> np.ndarray:
        opinion = Checks(given, 2, 16, CheckFiles(folder), trained).ask(DUSK, learned=learned)
        assert len(opinion.together) == len(given.own if learned else given.held_out)
        return np.stack([*opinion.each, opinion.together])

    first, learned = ask(), ask(learned=True)
    assert len(loaded) == 2
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == ["1", "1", "source"]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000
    assert np.array_equal(ask(), first)
    assert np.array_equal(ask(learned=True), learned)
    assert len(loaded) == 2
    for path in folder.glob("1-*"):
        path.write_bytes(b"damaged")
    assert np.array_equal(ask(), first)
    assert len(loaded) == 3
    source = next(folder.glob("source-*"))
    random_weights.write_bytes(save_classifier(build_classifier(mobilenet(), seed=2)))
    ask(Images(images.known, images.own, crops(50, 4, dusk=True)))
    assert len(loaded) == 4
    assert not source.exists()


def test_without_the_weights_check_models_are_not_heard(images, tmp_path, caplog):
    """Small networks are wrong together on photographs: the estimate is the middle of a wide range, and the log says why."""
    trained = find_trained(mobilenet(), tmp_path)
    small = Images(*(replace(each, pixels=each.pixels[:, :, ::4, ::4]) for each in (images.known, images.own, images.held_out)))
    with caplog.at_level(logging.WARNING):
        opinion = Checks(small, 2, 16, CheckFiles(tmp_path / "checks"), trained).ask(DUSK)
    assert not opinion.is_reliable
    assert opinion.taught is None
    assert "not heard about domain dusk" in caplog.text
    assert "start.safetensors" in caplog.text


def test_digits_are_left_to_small_networks():
    """Random weights, and LeNets whatever they start from."""
    assert find_trained(ModelSettings(backbone="resnet18"), Path()) is None
    assert find_trained(ModelSettings(backbone="lenet", weights="mine.safetensors"), Path()) is None
    assert find_trained(mobilenet(), Path("/p")) == Trained(mobilenet(), Path("/p/start.safetensors"))
