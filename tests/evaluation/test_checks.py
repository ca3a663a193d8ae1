"""Check models on small pictures: what they learn from the source, and what they say of another domain."""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest

from adaptd.evaluation.checks import Checks
from adaptd.library.imageset import ImageSet
from adaptd.records import Domain, DomainState

MOMENT = datetime.now(UTC)
SOURCE, NIGHT = (Domain(i, name, i, DomainState.DONE, None, 0, 0, MOMENT, MOMENT) for i, name in enumerate(("source", "night")))


def bars(n: int, ink: int, paper: int) -> ImageSet:
    """A bar that lies or stands, somewhere."""
    rng = np.random.default_rng(n)
    pixels = np.full((n, 3, 32, 32), paper, np.uint8)
    labels = np.arange(n, dtype=np.int64) % 2
    for image, label, place in zip(pixels, labels, rng.integers(4, 24, n), strict=True):
        image[(slice(None), slice(place, place + 5)) if label else (..., slice(place, place + 5))] = ink
    return ImageSet(np.arange(n, dtype=np.int64), pixels, labels)


@dataclass
class Images:
    """Two domains, the second without labels."""

    night: ImageSet
    source: Domain = SOURCE
    opened: int = 0

    def open_train(self, domain: Domain) -> ImageSet:
        """Counts how often the source is read."""
        self.opened += domain == SOURCE
        return bars(128, 230, 20) if domain == SOURCE else self.night.unlabelled()

    def open_unlabelled(self, domain: Domain) -> ImageSet:
        """The same images."""
        return self.open_train(domain)


@pytest.fixture(scope="module")
def opinions():
    """Two rounds of answers about dark bars on grey paper, and how often the source was read for the first."""
    images = Images(bars(60, 60, 130))
    checks = Checks(images, 2, 32)
    first = checks.ask(NIGHT)
    assert checks.ask(NIGHT) is first
    return first, Checks(Images(images.night), 2, 32).ask(NIGHT), images


def test_they_recognise_shapes_in_other_colours(opinions):
    """Without having seen a label of the other domain."""
    first, _, images = opinions
    assert np.mean(first.together == images.night.labels) > 0.9
    assert first.is_reliable


def test_the_same_source_gives_the_same_opinion(opinions):
    """They are trained once for all questions, and come out the same next time."""
    first, again, images = opinions
    assert all(np.array_equal(a, b) for a, b in zip(first.each, again.each, strict=True))
    assert images.opened == 1
