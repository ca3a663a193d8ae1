"""A model's row of R from its predictions: measured where there are labels, else estimated. Runs no model."""

from collections.abc import Iterable

from adaptd.evaluation.estimators import ATC
from adaptd.evaluation.intervals import wilson
from adaptd.evaluation.predictions import Prediction, Predictions
from adaptd.project.settings import EvaluationSettings
from adaptd.records import Accuracy, AccuracyKind, Domain


def make_row(
    predictions: Predictions, domains: Iterable[Domain], version: int, settings: EvaluationSettings
) -> tuple[Accuracy, ...]:
    """How good a version is on each of the domains: on one that people labelled later in both ways."""
    row: list[Accuracy] = []
    for domain in domains:
        if domain.id in predictions.tests:
            row.append(measure_accuracy(predictions.tests[domain.id], domain, version, settings))
        if domain.id in predictions.unlabelled:
            row.append(_estimate(predictions, domain, version))
    return tuple(row)


def measure_accuracy(test: Prediction, domain: Domain, version: int, settings: EvaluationSettings) -> Accuracy:
    """The share of right answers, with its interval."""
    assert test.labels is not None
    n, correct = len(test.labels), int((test.classes == test.labels).sum())
    low, high = wilson(correct, n, settings.confidence)
    return Accuracy(version, domain.id, AccuracyKind.MEASURED, correct / n, n, correct=correct, low=low, high=high)


def _estimate(predictions: Predictions, domain: Domain, version: int) -> Accuracy:
    n = len(predictions.unlabelled[domain.id].logits)
    return Accuracy(version, domain.id, AccuracyKind.ESTIMATED, predictions.estimate(domain.id), n, estimator=ATC)
