"""Two models' predictions side by side, as the gate wants them. Whether that is good enough, the gate decides."""

from collections.abc import Iterator

from adaptd.evaluation.checks import Checks
from adaptd.evaluation.predictions import DomainImages, Prediction, Predictions
from adaptd.publishing.gate import Comparison, Kind
from adaptd.records import Domain


def compare(
    images: DomainImages, promoted: Predictions | None, candidate: Predictions, checks: Checks | None
) -> list[Comparison]:
    """Both models on the source, on every older domain, and on the one just learnt.

    Args:
        images: that the models were run on. The domain just learnt is the one that has no position yet.
        promoted: what the promoted version predicts.
        candidate: what the candidate predicts.
        checks: second opinions about domains without labels, asked on held-out images; None: they are not asked.
    """
    found: list[Comparison] = []
    for domain in images.domains:
        if domain.position is not None or domain.id in candidate.tests:
            found += _compare(domain, promoted, candidate)
        # Labels decide where there are any.
        if promoted and domain.id in candidate.unlabelled.keys() - candidate.tests.keys() and images.has_held_out(domain):
            found += _compare_held_out(domain, promoted, candidate, checks)
    return found


def _compare_held_out(
    domain: Domain, promoted: Predictions, candidate: Predictions, checks: Checks | None
) -> Iterator[Comparison]:
    """By the check models, where they know the classes well enough; and which classes the domain just learnt is taken for."""
    before, after = (each.unlabelled[domain.id] for each in (promoted, candidate))
    opinion = checks.ask(domain) if checks else None
    is_new = domain.position is None
    if opinion and opinion.taught is not None:
        yield Comparison(domain.name, "check", after.classes, before.classes, opinion.together, None, after.nonfinite, is_new)
        if is_new:
            yield Comparison(domain.name, "taught", after.classes, before.classes, opinion.taught, None, after.nonfinite)
    if is_new:
        yield Comparison(domain.name, "classes", after.classes, before.classes, None, None, after.nonfinite)


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
