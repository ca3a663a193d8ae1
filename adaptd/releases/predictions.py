"""What a model answers to every set of images it is judged on, and what follows: its row of R, and how it compares."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptd.evaluation.estimators import ATC, estimate_accuracy
from adaptd.evaluation.evaluator import predict
from adaptd.evaluation.intervals import wilson
from adaptd.learning.backbones import Classifier
from adaptd.project.settings import EvaluationSettings
from adaptd.publishing.gate import Comparison, Kind
from adaptd.records import Accuracy, AccuracyKind, Domain
from adaptd.releases.materials import Materials

UNNUMBERED = 0
"""The version in an entry before its model has a number."""

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Answers:
    """Logits by domain id: on labelled test sets, on a domain's own images where it has none, and on memories."""

    tests: dict[int, Logits]
    unlabelled: dict[int, Logits]
    memories: dict[int, Logits]


def ask(model: Classifier, materials: Materials, batch_size: int, domains: tuple[Domain, ...] | None = None) -> Answers:
    """Run a model over everything it is judged on: all domains, or some of them and the source."""
    tests: dict[int, Logits] = {}
    unlabelled: dict[int, Logits] = {}
    memories: dict[int, Logits] = {}
    for domain in materials.measured_on if domains is None else dict.fromkeys((materials.source, *domains)):
        test = materials.open_test(domain)
        if test is not None:
            tests[domain.id] = predict(model, test, batch_size)
            continue
        unlabelled[domain.id] = predict(model, materials.open_unlabelled(domain), batch_size)
        if domain.id in materials.memories:
            memories[domain.id] = predict(model, materials.open_memory(domain), batch_size)
    return Answers(tests, unlabelled, memories)


def make_row(answers: Answers, materials: Materials, settings: EvaluationSettings) -> tuple[Accuracy, ...]:
    """The accuracy on each domain: measured where there are labels, else estimated."""
    return tuple(
        _measured(answers.tests[domain.id], _labels(materials, domain), domain, settings)
        if domain.id in answers.tests
        else _estimated(answers, materials, domain)
        for domain in materials.measured_on
        if domain.id in answers.tests or domain.id in answers.unlabelled
    )


def compare(materials: Materials, promoted: Answers | None, candidate: Answers) -> list[Comparison]:
    """Both models on the source, then on every older domain, and on the one just learnt where labels tell how it fares."""
    own = materials.episode.domain_id
    return [
        comparison
        for domain in materials.measured_on
        if domain.id != own or domain.position is not None or domain.id in candidate.tests
        for comparison in _compare(materials, domain, promoted, candidate)
    ]


def _compare(materials: Materials, domain: Domain, promoted: Answers | None, candidate: Answers) -> Iterator[Comparison]:
    if domain.id in candidate.tests:
        before = promoted.tests[domain.id] if promoted else None
        yield _comparison(domain, "test", before, candidate.tests[domain.id], _labels(materials, domain))
        return
    if domain.id in candidate.memories:
        labels = materials.open_memory(domain).labels
        assert labels is not None
        before = promoted.memories[domain.id] if promoted else None
        yield _comparison(domain, "memory", before, candidate.memories[domain.id], labels)
    after = candidate.unlabelled[domain.id]
    before = promoted.unlabelled[domain.id] if promoted else None
    estimates = (_estimate(promoted, materials, domain), _estimate(candidate, materials, domain)) if promoted else None
    yield Comparison(domain.name, "estimate", after.argmax(axis=1), _classes(before), None, estimates, _count_nonfinite(after))


def _comparison(domain: Domain, kind: Kind, before: Logits | None, after: Logits, labels: NDArray[np.int64]) -> Comparison:
    return Comparison(domain.name, kind, after.argmax(axis=1), _classes(before), labels, None, _count_nonfinite(after))


def _classes(logits: Logits | None) -> NDArray[np.int64] | None:
    return None if logits is None else logits.argmax(axis=1)


def _count_nonfinite(logits: Logits) -> int:
    return int((~np.isfinite(logits).all(axis=1)).sum())


def _labels(materials: Materials, domain: Domain) -> NDArray[np.int64]:
    test = materials.open_test(domain)
    assert test is not None
    assert test.labels is not None
    return test.labels


def _measured(logits: Logits, labels: NDArray[np.int64], domain: Domain, settings: EvaluationSettings) -> Accuracy:
    n, correct = len(labels), int((logits.argmax(axis=1) == labels).sum())
    low, high = wilson(correct, n, settings.confidence)
    return Accuracy(UNNUMBERED, domain.id, AccuracyKind.MEASURED, correct / n, n, correct=correct, low=low, high=high)


def _estimated(answers: Answers, materials: Materials, domain: Domain) -> Accuracy:
    n = len(answers.unlabelled[domain.id])
    value = _estimate(answers, materials, domain)
    return Accuracy(UNNUMBERED, domain.id, AccuracyKind.ESTIMATED, value, n, estimator=ATC)


def _estimate(answers: Answers, materials: Materials, domain: Domain) -> float:
    source = materials.source
    return estimate_accuracy(answers.tests[source.id], _labels(materials, source), answers.unlabelled[domain.id])
