"""Second opinions by small networks, which learn from the source alone. Kept are the networks, for the source and each domain."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adaptd.evaluation.agreement import Classes, SecondOpinion
from adaptd.evaluation.checkfiles import CheckFiles, Tensors, fingerprint, make_key
from adaptd.evaluation.checknet import CheckModel, ask_check, build_check, teach_checks, train_check
from adaptd.library.imageset import ImageSet

SEEDS = (0, 1)
"""Of the check models: two, which differ in nothing else."""
RECIPE = "check models, 1"
"""Stands for how they are trained: another name makes kept ones useless."""


class NetChecks:
    """Asks two small networks, trained when the first question comes.

    Args:
        source: labelled images.
        classes: how many there are.
        batch_size: of the forward passes.
        files: keeps trained networks.
    """

    def __init__(self, source: ImageSet, classes: int, batch_size: int, files: CheckFiles) -> None:
        self._source, self._classes, self._batch_size, self._files = source, classes, batch_size, files

    def ask(self, name: str, own: ImageSet, images: ImageSet) -> SecondOpinion:
        """About images of a domain that has this name among the files, and is learned from its own images."""

        def answer(models: Sequence[CheckModel]) -> list[NDArray[np.float64]]:
            return [ask_check(model, images, own, self._batch_size) for model in models]

        first, second = answers = answer(self._models)
        opinion = SecondOpinion((_choose(first), _choose(second)), _choose(np.mean(answers, axis=0)), self._classes)
        if not opinion.is_reliable:
            return opinion
        return replace(opinion, taught=_choose(np.mean(answer(self._teach(name, own)), axis=0)))

    @cached_property
    def _models(self) -> tuple[CheckModel, ...]:
        """Those that know the source alone."""
        return self._keep("source", self._source, lambda: tuple(train_check(self._source, self._classes, seed) for seed in SEEDS))

    def _teach(self, name: str, own: ImageSet) -> tuple[CheckModel, ...]:
        """Those that taught each other a domain."""
        return self._keep(name, own, lambda: teach_checks(self._models, self._source, own, self._batch_size))

    def _keep(self, name: str, images: ImageSet, train: Callable[[], tuple[CheckModel, ...]]) -> tuple[CheckModel, ...]:
        key = make_key(RECIPE, str(self._classes), fingerprint(self._source), fingerprint(images))
        tensors = self._files.get(name, key, lambda: _take_apart(train()))
        models = tuple(build_check(self._source, self._classes) for _ in SEEDS)
        for number, model in enumerate(models):
            start = f"{number}."
            model.load_state_dict({k.removeprefix(start): value for k, value in tensors.items() if k.startswith(start)})
        return models


def _take_apart(models: Iterable[CheckModel]) -> Tensors:
    return {f"{number}.{key}": value for number, m in enumerate(models) for key, value in m.state_dict().items()}


def _choose(answers: NDArray[np.float64]) -> Classes:
    best: Classes = answers.argmax(axis=1).astype(np.int64)
    return best
