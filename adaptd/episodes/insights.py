"""A few images of each domain as the models before and after an episode see them, written down for the pages."""

import numpy as np
from numpy.typing import NDArray

from adaptd.episodes.materials import Materials
from adaptd.evaluation.evaluator import view
from adaptd.evaluation.insight import Insight, project_features
from adaptd.learning.backbones import Classifier
from adaptd.learning.below import Below
from adaptd.library.imageset import ImageSet
from adaptd.project.layout import Layout

OWN_IMAGES, OTHER_IMAGES, DOMAINS = 300, 60, 8
"""Of the episode's own domain, of each other, and how many others: the source and the newest."""


def write_insight(
    layout: Layout,
    materials: Materials,
    before: Classifier | None,
    after: Classifier,
    batch_size: int,
    below: Below | None = None,
) -> None:
    """Run both models, but for what is `below` of them, over the same images, and keep what they predict."""
    own, images = materials.domain, materials.images
    others = [domain for domain in images.domains if domain.id != own.id]
    samples = {own.id: _some(images.open_sample(own), OWN_IMAGES)}
    for domain in others[:1] + others[1:][-DOMAINS:]:
        samples[domain.id] = _some(images.open_sample(domain), OTHER_IMAGES)
    shown = _join(list(samples.values()))
    known = [label for sample in samples.values() for label in _labels(sample)]
    classes = len(after.settings.classes)
    was = None if before is None else view(before, shown, classes, batch_size, below)
    now = view(after, shown, classes, batch_size, below)
    insight = Insight(
        after.settings.classes,
        tuple(shown.ids.tolist()),
        tuple(domain for domain, sample in samples.items() for _ in range(len(sample))),
        tuple(known),
        () if was is None else tuple(was.logits.argmax(axis=1).tolist()),
        tuple(now.logits.argmax(axis=1).tolist()),
        *project_features(now.features, None if was is None else was.features),
        before_confidence=() if was is None else _confidence(was.logits),
        after_confidence=_confidence(now.logits),
    )
    target = layout.insight(materials.episode.id)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(insight.to_text(), encoding="utf-8")


def _confidence(logits: NDArray[np.float32]) -> tuple[float, ...]:
    """The probability of each image's prediction."""
    exact = logits.astype(np.float64)
    shares = np.exp(exact - exact.max(axis=1, keepdims=True))
    return tuple(np.round(1 / shares.sum(axis=1), 4).tolist())


def _some(images: ImageSet, most: int) -> ImageSet:
    count = min(len(images), most)
    rows = np.linspace(0, len(images) - 1, count).astype(np.int64)
    return ImageSet(images.ids[rows], images.pixels[rows], None if images.labels is None else images.labels[rows])


def _labels(images: ImageSet) -> list[int | None]:
    return [None] * len(images) if images.labels is None else images.labels.tolist()


def _join(samples: list[ImageSet]) -> ImageSet:
    return ImageSet(np.concatenate([s.ids for s in samples]), np.concatenate([s.pixels for s in samples]))
