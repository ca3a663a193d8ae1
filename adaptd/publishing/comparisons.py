"""Two models' predictions side by side, as the gate wants them. Whether that is good enough, the gate decides."""

from collections.abc import Iterator

import numpy as np

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
        checks: second opinions about domains without labels; None: they are not asked.
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
    is_new = domain.position is None
    if checks and checks.ask(domain).is_reliable:
        yield from _check(domain, promoted, candidate, checks)
    if is_new:
        yield Comparison(domain.name, "classes", after.classes, before.classes, None, None, after.nonfinite)


def _check(domain: Domain, promoted: Predictions, candidate: Predictions, checks: Checks) -> Iterator[Comparison]:
    """On held-out images; on the domain just learnt also on those learned from, of which check models know no pseudo-label."""
    opinions = [checks.ask(domain)]
    parts = [tuple(each.unlabelled[domain.id] for each in (candidate, promoted))]
    if domain.id in candidate.learned and domain.id in promoted.learned:
        opinions.append(checks.ask(domain, learned=True))
        parts.append(tuple(each.learned[domain.id] for each in (candidate, promoted)))
    after, before = (np.concatenate([part[place].classes for part in parts]) for place in (0, 1))
    is_new, nonfinite = domain.position is None, sum(part[0].nonfinite for part in parts)
    together = np.concatenate([opinion.together for opinion in opinions])
    yield Comparison(domain.name, "check", after, before, together, None, nonfinite, is_new)
    if is_new:
        taught = [opinion.taught for opinion in opinions if opinion.taught is not None]
        if len(taught) == len(opinions):
            yield Comparison(domain.name, "taught", after, before, np.concatenate(taught), None, nonfinite)


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
