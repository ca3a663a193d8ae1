"""A row of R: a model on every domain it should be good at, measured where there are labels, else estimated."""

from adaptd.daemon.materials import Materials
from adaptd.evaluation.estimators import ATC, estimate_accuracy
from adaptd.evaluation.evaluator import measure, predict
from adaptd.evaluation.intervals import wilson
from adaptd.learning.backbones import Classifier
from adaptd.records import Accuracy, AccuracyKind, Domain
from adaptd.settings import EvaluationSettings

UNNUMBERED = 0
"""The version in an entry before its model has a number."""


def evaluate_row(
    model: Classifier, materials: Materials, settings: EvaluationSettings, only: int | None = None
) -> tuple[Accuracy, ...]:
    """The model's accuracy on each domain of the row, or on one of them by id."""
    domains = [domain for domain in materials.measured_on if only is None or domain.id == only]
    return tuple(_evaluate(model, materials, settings, domain) for domain in domains)


def _evaluate(model: Classifier, materials: Materials, settings: EvaluationSettings, domain: Domain) -> Accuracy:
    test = materials.open_test(domain)
    if test is None:
        return _estimate(model, materials, settings, domain)
    found = measure(model, test, settings.batch_size)
    low, high = wilson(found.correct, found.n, settings.confidence)
    kind = AccuracyKind.MEASURED
    return Accuracy(UNNUMBERED, domain.id, kind, found.accuracy, found.n, correct=found.correct, low=low, high=high)


def _estimate(model: Classifier, materials: Materials, settings: EvaluationSettings, domain: Domain) -> Accuracy:
    images = materials.open_unlabelled(domain)
    reference = materials.open_test(materials.source)
    assert reference is not None
    assert reference.labels is not None
    known = predict(model, reference, settings.batch_size)
    value = estimate_accuracy(known, reference.labels, predict(model, images, settings.batch_size))
    return Accuracy(UNNUMBERED, domain.id, AccuracyKind.ESTIMATED, value, len(images), estimator=ATC)
