"""Two models' predictions side by side, as the gate wants them. Whether that is good enough, the gate decides."""

from collections.abc import Iterable, Iterator

from adaptd.evaluation.predictions import Prediction, Predictions
from adaptd.publishing.gate import Comparison, Kind
from adaptd.records import Domain


def compare(domains: Iterable[Domain], promoted: Predictions | None, candidate: Predictions) -> list[Comparison]:
    """Both models on the source, then on every older domain, and on the one just learnt where labels tell how it fares.

    The domain just learnt is the one that has no position yet.
    """
    return [
        comparison
        for domain in domains
        if domain.position is not None or domain.id in candidate.tests
        for comparison in _compare(domain, promoted, candidate)
    ]


def _compare(domain: Domain, promoted: Predictions | None, candidate: Predictions) -> Iterator[Comparison]:
    if domain.id in candidate.tests:
        before = promoted.tests[domain.id] if promoted else None
        yield _labelled(domain, "test", before, candidate.tests[domain.id])
        return
    if domain.id in candidate.memories:
        before = promoted.memories[domain.id] if promoted else None
        yield _labelled(domain, "memory", before, candidate.memories[domain.id])
    after = candidate.unlabelled[domain.id]
    classes = promoted.unlabelled[domain.id].classes if promoted else None
    estimates = (promoted.estimate(domain.id), candidate.estimate(domain.id)) if promoted else None
    yield Comparison(domain.name, "estimate", after.classes, classes, None, estimates, after.nonfinite)


def _labelled(domain: Domain, kind: Kind, before: Prediction | None, after: Prediction) -> Comparison:
    classes = None if before is None else before.classes
    return Comparison(domain.name, kind, after.classes, classes, after.labels, None, after.nonfinite)
