"""Second opinions about domains without labels: check models are trained when the first is asked for, once for all domains."""

from functools import cached_property
from typing import Protocol

import numpy as np

from adaptd.evaluation.agreement import SecondOpinion
from adaptd.evaluation.checknet import CheckModel, ask_check, train_check
from adaptd.library.imageset import ImageSet
from adaptd.records import Domain

SEEDS = (0, 1)
"""Of the check models: two, which differ in nothing else."""


class CheckedImages(Protocol):
    """The images that check models learn from and are asked about."""

    @property
    def source(self) -> Domain:
        """Domain 0."""

    def open_train(self, domain: Domain) -> ImageSet:
        """A domain's own images; the source's have labels."""

    def open_unlabelled(self, domain: Domain) -> ImageSet:
        """The images that estimates are made on."""


class Checks:
    """What check models say, by domain. Nothing is trained where nobody asks.

    Args:
        images: of all domains.
        classes: how many there are.
        batch_size: of the forward passes.
    """

    def __init__(self, images: CheckedImages, classes: int, batch_size: int) -> None:
        self._images, self._classes, self._batch_size = images, classes, batch_size
        self._opinions: dict[int, SecondOpinion] = {}

    def ask(self, domain: Domain) -> SecondOpinion:
        """About the images that estimates for a domain are made on, row for row."""
        if domain.id not in self._opinions:
            images, statistics = self._images.open_unlabelled(domain), self._images.open_train(domain)
            answers = [ask_check(model, images, statistics, self._batch_size) for model in self._models]
            first, second, together = (answer.argmax(axis=1).astype(np.int64) for answer in (*answers, np.mean(answers, axis=0)))
            self._opinions[domain.id] = SecondOpinion((first, second), together, self._classes)
        return self._opinions[domain.id]

    @cached_property
    def _models(self) -> tuple[CheckModel, ...]:
        source = self._images.open_train(self._images.source)
        return tuple(train_check(source, self._classes, seed) for seed in SEEDS)
