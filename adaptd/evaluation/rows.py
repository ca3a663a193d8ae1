"""A model's row of R from its predictions: measured where there are labels, else estimated. Runs no model."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from adaptd.evaluation.agreement import agree, make_range
from adaptd.evaluation.checks import Checks
from adaptd.evaluation.intervals import wilson
from adaptd.evaluation.predictions import DomainImages, Prediction, Predictions
from adaptd.project.settings import EvaluationSettings
from adaptd.records import Accuracy, AccuracyKind, Domain, Estimator


class RowMaker:
    """Makes rows of versions that are judged on the same images.

    Args:
        images: of all domains.
        checks: second opinions about those without labels.
        settings: [evaluation].
    """

    def __init__(self, images: DomainImages, checks: Checks, settings: EvaluationSettings) -> None:
        self._images, self._checks, self._settings = images, checks, settings

    def make(self, predictions: Predictions, domains: Iterable[Domain], version: int) -> tuple[Accuracy, ...]:
        """How good a version is on each of the domains, one entry for each estimator; in both ways where labels came later."""
        return tuple(entry for domain in domains for entry in self._find(predictions, domain, version))

    def _find(self, predictions: Predictions, domain: Domain, version: int) -> Iterator[Accuracy]:
        if domain.id in predictions.tests:
            yield measure_accuracy(predictions.tests[domain.id], domain, version, self._settings)
        if domain.id in predictions.unlabelled:
            yield from self._estimate(predictions, domain, version)

    def _estimate(self, predictions: Predictions, domain: Domain, version: int) -> Iterator[Accuracy]:
        found, opinion = predictions.unlabelled[domain.id], self._checks.ask(domain)
        n = len(found.logits)
        confident, agreement = predictions.estimate(domain.id), agree(found.classes, opinion.together)
        likely = None if opinion.taught is None else agree(found.classes, opinion.taught)
        both = make_range(agreement, confident, likely, n, self._settings.confidence)
        held_out = self._images.has_held_out(domain)
        shown = Accuracy(version, domain.id, AccuracyKind.ESTIMATED, both.value, n, held_out=held_out)
        yield replace(shown, estimator=Estimator.RANGE, low=both.low, high=both.high)
        yield replace(shown, estimator=Estimator.ATC, value=confident)
        yield replace(shown, estimator=Estimator.CHECK, value=agreement)


def measure_accuracy(test: Prediction, domain: Domain, version: int, settings: EvaluationSettings) -> Accuracy:
    """The share of right answers, with its interval."""
    assert test.labels is not None
    n, correct = len(test.labels), int((test.classes == test.labels).sum())
    low, high = wilson(correct, n, settings.confidence)
    return Accuracy(version, domain.id, AccuracyKind.MEASURED, correct / n, n, correct=correct, low=low, high=high)
