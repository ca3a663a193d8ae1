"""What a model predicts on every set of images it is judged on. What follows from that is for `rows` and the gate."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from adaptd.evaluation.estimators import estimate_accuracy
from adaptd.evaluation.evaluator import answering
from adaptd.learning.below import Below
from adaptd.library.imageset import Gathered, ImageSet, spread_rows
from adaptd.pace import Seen, ignore
from adaptd.records import Domain

MOST_LEARNED = 4000
"""Of the images that were just learned from, so many are looked at."""


class DomainImages(Protocol):
    """The images that models are judged on, domain by domain."""

    @property
    def source(self) -> Domain:
        """Domain 0, which always has a test set."""

    @property
    def domains(self) -> tuple[Domain, ...]:
        """All of them, the source first."""

    def has_test(self, domain: Domain) -> bool:
        """Whether it brought a labelled test set itself."""

    def open_test(self, domain: Domain) -> ImageSet | None:
        """Its labelled test set, or the images that people labelled later; None where it has neither."""

    def open_train(self, domain: Domain) -> ImageSet:
        """The images that are learned from."""

    def open_unlabelled(self, domain: Domain) -> ImageSet:
        """The images that estimates are made on."""

    def has_held_out(self, domain: Domain) -> bool:
        """Whether those are images that no episode learns from."""

    def open_memory(self, domain: Domain) -> ImageSet | None:
        """Its memory, with pseudo-labels; None where it has none."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A model on one set of images: logits, float32 [n, classes], and labels, int64 [n], where there are any."""

    logits: NDArray[np.float32]
    labels: NDArray[np.int64] | None

    @property
    def classes(self) -> NDArray[np.int64]:
        """The class of each image."""
        best: NDArray[np.int64] = self.logits.argmax(axis=1)
        return best

    @property
    def nonfinite(self) -> int:
        """Images with NaN or infinity among their logits."""
        return int((~np.isfinite(self.logits).all(axis=1)).sum())


@dataclass(frozen=True, slots=True)
class Predictions:
    """A model on many domains, by domain id.

    Args:
        source: the source's test set.
        tests: labelled test sets, and images that people labelled later.
        unlabelled: of each domain without a test set of its own, its own images.
        memories: of each domain without a test set of its own, its memory if it has one.
        learned: of the domain just learnt, where others are held out, the images that were learned from.
    """

    source: Prediction
    tests: dict[int, Prediction]
    unlabelled: dict[int, Prediction]
    memories: dict[int, Prediction]
    learned: dict[int, Prediction] = field(default_factory=dict)

    def estimate(self, domain_id: int) -> float:
        """What ATC says of a domain without a test set."""
        assert self.source.labels is not None
        return estimate_accuracy(self.source.logits, self.source.labels, self.unlabelled[domain_id].logits)


def count_images(images: DomainImages, domains: Sequence[Domain]) -> int:
    """How many images `predict_domains` runs a model over, about."""
    total = 0
    for domain in domains:
        own = [images.open_test(domain)]
        if not images.has_test(domain):
            own += [images.open_unlabelled(domain), images.open_memory(domain)]
        total += sum(len(found) for found in own if found is not None)
    return total


def predict_domains(
    model: nn.Module,
    images: DomainImages,
    batch_size: int,
    domains: Sequence[Domain] | None = None,
    seen: Seen = ignore,
    below: Below | None = None,
) -> Predictions:
    """Run a model over everything it is judged on: all domains, or the source and some others; `seen` is told how far it is.

    What is `below` of it need not be run.
    """
    tests: dict[int, Prediction] = {}
    unlabelled: dict[int, Prediction] = {}
    memories: dict[int, Prediction] = {}
    learned: dict[int, Prediction] = {}

    asked = images.domains if domains is None else tuple(dict.fromkeys((images.source, *domains)))
    known = images.open_test(images.source)
    assert known is not None
    with answering(model, known.pixels.shape[1:], count_images(images, asked), batch_size, seen, below=below) as answer:

        def run(found: ImageSet) -> Prediction:
            return Prediction(answer(found), found.labels)

        for domain in asked:
            test = images.open_test(domain)
            if test is not None:
                tests[domain.id] = run(test)
            if images.has_test(domain):
                continue
            unlabelled[domain.id] = run(images.open_unlabelled(domain))
            if domain.position is None and images.has_held_out(domain):
                learned[domain.id] = run(choose_learned(images.open_train(domain)))
            memory = images.open_memory(domain)
            if memory is not None:
                memories[domain.id] = run(memory)
    return Predictions(tests[images.source.id], tests, unlabelled, memories, learned)


def choose_learned(images: ImageSet) -> ImageSet:
    """Those that are looked at, without labels; of very many, some at even distances."""
    rows = spread_rows(len(images), MOST_LEARNED)
    return images.unlabelled() if len(rows) == len(images) else ImageSet(images.ids[rows], Gathered([images.pixels], rows))
