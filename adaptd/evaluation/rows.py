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
    """How good a version is on each of the domains."""
    return tuple(
        _measure(predictions.tests[domain.id], domain, version, settings)
        if domain.id in predictions.tests
        else _estimate(predictions, domain, version)
        for domain in domains
    )


def _measure(test: Prediction, domain: Domain, version: int, settings: EvaluationSettings) -> Accuracy:
    assert test.labels is not None
    n, correct = len(test.labels), int((test.classes == test.labels).sum())
    low, high = wilson(correct, n, settings.confidence)
    return Accuracy(version, domain.id, AccuracyKind.MEASURED, correct / n, n, correct=correct, low=low, high=high)


def _estimate(predictions: Predictions, domain: Domain, version: int) -> Accuracy:
    n = len(predictions.unlabelled[domain.id].logits)
    return Accuracy(version, domain.id, AccuracyKind.ESTIMATED, predictions.estimate(domain.id), n, estimator=ATC)
