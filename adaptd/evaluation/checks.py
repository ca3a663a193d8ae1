"""Second opinions about domains without labels: check models are trained when the first is asked for, and kept."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from adaptd.evaluation.agreement import Classes, SecondOpinion
from adaptd.evaluation.checkfiles import CheckFiles
from adaptd.evaluation.checknet import CheckModel, ask_check, build_check, teach_checks, train_check
from adaptd.evaluation.predictions import choose_learned
from adaptd.library.imageset import ImageSet
from adaptd.records import Domain

SEEDS = (0, 1)
"""Of the check models: two, which differ in nothing else."""
RECIPE = "check models, 1"
"""Stands for how they are trained: another name makes kept ones useless."""
FINGERPRINT_IMAGES = 64
"""Images whose pixels are looked at to tell two sets apart."""


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
    """What check models say, by domain. Nothing is trained where nobody asks, or where it was before.

    Args:
        images: of all domains.
        classes: how many there are.
        batch_size: of the forward passes.
        files: keeps trained check models; None: they are not kept.
    """

    def __init__(self, images: CheckedImages, classes: int, batch_size: int, files: CheckFiles | None = None) -> None:
        self._images, self._classes, self._batch_size, self._files = images, classes, batch_size, files
        self._opinions: dict[tuple[int, bool], SecondOpinion] = {}

    def ask(self, domain: Domain, *, learned: bool = False) -> SecondOpinion:
        """About the images that estimates for a domain are made on, row for row; or about those that were learned from."""
        key = (domain.id, learned)
        if key not in self._opinions:
            self._opinions[key] = self._ask(domain, learned=learned)
        return self._opinions[key]

    def _ask(self, domain: Domain, *, learned: bool) -> SecondOpinion:
        own = self._images.open_train(domain).unlabelled()
        images = choose_learned(own) if learned else self._images.open_unlabelled(domain)

        def answer(models: Sequence[CheckModel]) -> list[NDArray[np.float64]]:
            return [ask_check(model, images, own, self._batch_size) for model in models]

        first, second = answers = answer(self._models)
        opinion = SecondOpinion((_choose(first), _choose(second)), _choose(np.mean(answers, axis=0)), self._classes)
        if not opinion.is_reliable:
            return opinion
        return replace(opinion, taught=_choose(np.mean(answer(self._teach(domain, own)), axis=0)))

    @cached_property
    def _models(self) -> tuple[CheckModel, ...]:
        """Those that know the source alone."""

        def train() -> tuple[CheckModel, ...]:
            return tuple(train_check(self._source, self._classes, seed) for seed in SEEDS)

        return self._keep("source", self._source, train)

    def _teach(self, domain: Domain, own: ImageSet) -> tuple[CheckModel, ...]:
        """Those that taught each other a domain."""
        return self._keep(str(domain.id), own, lambda: teach_checks(self._models, self._source, own, self._batch_size))

    def _keep(self, name: str, images: ImageSet, train: Callable[[], tuple[CheckModel, ...]]) -> tuple[CheckModel, ...]:
        if self._files is None:
            return train()
        facts = (RECIPE, str(self._classes), fingerprint(self._source), fingerprint(images))
        blank = tuple(build_check(self._source, self._classes) for _ in SEEDS)
        return self._files.get(name, hashlib.sha256("\n".join(facts).encode()).hexdigest(), blank, train)

    @cached_property
    def _source(self) -> ImageSet:
        return self._images.open_train(self._images.source)


def fingerprint(images: ImageSet) -> str:
    """Differs for another set: by ids, labels and some of the pixels."""
    digest = hashlib.sha256(str(images.pixels.shape).encode())
    rows = np.unique(np.linspace(0, len(images) - 1, min(len(images), FINGERPRINT_IMAGES)).round().astype(np.int64))
    for array in (images.ids, images.labels, images.pixels[rows]):
        digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _choose(answers: NDArray[np.float64]) -> Classes:
    best: Classes = answers.argmax(axis=1).astype(np.int64)
    return best
