"""The quality gate: may a candidate replace the promoted version? Pure: predictions in, a decision with its reasons out.

How noise is treated. A loss counts when it is beyond its tolerance *and* the paired flips could not be chance: an
exact one-sided sign test (McNemar) on the images where only one of the two models is right. On a thousand images the
tolerance decides; on twenty, where two images more or less mean nothing, the test does. Negative flips are tested
against their tolerance by the binomial distribution. ATC has no pairs; its loss must stand out of the sampling error
of two shares. Agreement with the check models has: their classes stand where labels would. Every domain gets its part
of one level for the whole gate, so that a project with fifty domains does not reject every second candidate by luck.
On the domain just learnt, where nobody labelled, a loss counts that is likely rather than proven: a model that may have got
worse on the very images that it was made for is shown to a person, and a few hundred held-out images prove little.

Small losses add up. Each candidate is compared with the promoted version only, so ten of them may each lose a little that
is allowed. Therefore the accuracy measured on a domain is also held against the best one on the way to the promoted
version: together they may lose twice what one may. There are no pairs for that, only two shares.

The first version has nothing to be compared with; it must only be better than guessing (`first`).

Where nobody labelled, only estimates can speak against a candidate. They hold it back, as the settings say, and a person decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adaptd.project.settings import GateSettings
from adaptd.publishing.card import GateOutcome
from adaptd.publishing.first import REMEDY, find_weaknesses
from adaptd.publishing.significance import binomial_tail, find_change, stands_out
from adaptd.records import SOURCES
from adaptd.text import tell_count, tell_points

LEVEL = 0.05
"""The chance of rejecting, over all domains, a candidate that is as good as the promoted version."""

LIKELY = 0.2
"""The same, where a check of the domain just learnt holds a candidate back for a person to decide."""

TOTAL = 2
"""Steps' worth of tolerance that may be lost in total since the best version."""

Predictions = NDArray[np.int64]
Kind = Literal["test", "memory", "estimate", "check", "taught", "classes"]

ESTIMATES: frozenset[Kind] = frozenset({"estimate", "check"})
"""Comparisons that no label stands behind."""

_WORDS = {
    "test": "measured accuracy",
    "memory": "agreement with its memory",
    "estimate": "estimated accuracy",
    "check": "agreement with the check models, the pessimistic estimate,",
    "taught": "the estimated accuracy",
}
_HELPED = {1: "adaptation helped", -1: "adaptation harmed", 0: "whether adaptation helped is unclear"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Promoted and candidate on the same images of one domain.

    Args:
        domain: its name; the first comparison of all is the source's.
        kind: test: true labels; memory: pseudo-labels kept with it; check: what check models say; taught: what they say after
            they taught each other the domain, which decides nothing; estimate: ATC's two figures; classes: nothing is known but
            which classes are predicted.
        candidate: predicted classes, [n].
        promoted: likewise; None while nothing is promoted.
        labels: [n], for test, memory, check and taught.
        estimates: of the promoted version and of the candidate, for estimate.
        nonfinite: images on which the candidate answers NaN or infinity.
        is_new: it is the domain just learnt: a loss counts that is likely.
    """

    domain: str
    kind: Kind
    candidate: Predictions
    promoted: Predictions | None = None
    labels: Predictions | None = None
    estimates: tuple[float, float] | None = None
    nonfinite: int = 0
    is_new: bool = False

    def __post_init__(self) -> None:
        lengths = {len(array) for array in (self.candidate, self.promoted, self.labels) if array is not None}
        if len(lengths) != 1 or lengths == {0}:
            raise ValueError(f"predictions and labels on {self.domain} must be of the same images, at least one")
        needed = {"estimate": self.estimates, "classes": self.promoted}.get(self.kind, self.labels)
        if self.promoted is not None and needed is None:
            raise ValueError(f"a comparison of kind {self.kind} on {self.domain} needs its labels or estimates")


@dataclass(frozen=True, slots=True)
class Best:
    """The best accuracy that was measured on a domain before the promoted version, and whose it is."""

    version: int
    value: float
    n: int


@dataclass(frozen=True, slots=True)
class _Scores:
    """What a comparison comes to."""

    n: int
    before: float
    after: float
    negative: int | None = None
    positive: int | None = None

    @property
    def loss(self) -> float:
        return self.before - self.after

    def find_change(self) -> int:
        """1 where the candidate is better, -1 where it is worse, 0 where that may be chance."""
        assert self.negative is not None
        assert self.positive is not None
        return find_change(self.negative, self.positive)

    def is_significant(self, level: float) -> bool:
        """Whether the loss is more than chance."""
        if self.negative is not None and self.positive is not None:
            return binomial_tail(self.negative + self.positive, 0.5, self.negative) <= level
        return stands_out((self.before, self.n), (self.after, self.n), level)


def judge(
    comparisons: Sequence[Comparison],
    settings: GateSettings,
    classes: Sequence[str],
    best: Mapping[str, Best] | None = None,
    number: int | None = None,
) -> GateOutcome:
    """Decide on a candidate.

    Args:
        comparisons: the source's test set first, then every older domain: its test set where it has one, else its memory and
            its estimates. The domain just learnt is among them where it has labels, or else by the check models on
            held-out images: what a model thinks of images that it has just labelled itself proves nothing.
        settings: the tolerances, and whether estimates count.
        classes: their names, for the reasons.
        best: of each domain where something was measured before the promoted version, by its name.
        number: of the candidate, for what a person may do with it.
    """
    if not comparisons or comparisons[0].kind != "test":
        raise ValueError("the gate needs the source's test set first")
    level = LEVEL / len({comparison.domain for comparison in comparisons})
    figures = {f"{each.domain} ({each.kind})": _figures(each) for each in comparisons}
    against = _too_weak(comparisons[0], classes)
    unsure: dict[str, str] = {}
    told: list[str] = []
    for place, comparison in enumerate(comparisons):
        tolerance = settings.max_source_loss if place == 0 else settings.max_domain_loss
        found = [*_objections(comparison, settings, tolerance, level)]
        if found and comparison.kind in ESTIMATES and not comparison.nonfinite:
            unsure[comparison.domain] = f"{unsure.get(comparison.domain, '')} {' '.join(found)}".strip()
        else:
            against += found
        against += _worn_away(comparison, (best or {}).get(comparison.domain), TOTAL * tolerance, level)
        against += _collapsed(comparison, settings.min_class_share, classes)
        if comparison.kind != "classes":
            told.append(_in_words(comparison, tolerance))
    if settings.estimates == "ignore":
        unsure = {}
    if against or unsure:
        held = [f"{text} {_ways_on(domain, number)}" for domain, text in unsure.items()]
        return GateOutcome(passed=False, reasons=(*against, *(unsure.values() if against else held)), figures=figures)
    if all(comparison.promoted is None for comparison in comparisons):
        return GateOutcome(passed=True, reasons=("It is the first version: nothing was promoted before.",), figures=figures)
    return GateOutcome(passed=True, reasons=tuple(told), figures=figures)


def _too_weak(source: Comparison, classes: Sequence[str]) -> list[str]:
    """What speaks against a version before which nothing was promoted, and the remedy."""
    if source.promoted is not None or source.labels is None:
        return []
    found = [*find_weaknesses(source.candidate, source.labels, classes)]
    return [*found, REMEDY] if found else []


def _objections(comparison: Comparison, settings: GateSettings, tolerance: float, level: float) -> Iterator[str]:
    """A sentence for each thing that speaks against the candidate."""
    if comparison.nonfinite:
        yield (
            f"On {_place(comparison)}, the candidate answers NaN or infinity to {comparison.nonfinite} of "
            f"{len(comparison.candidate)} images."
        )
    if comparison.promoted is None or comparison.kind in {"classes", "taught"}:
        return
    scores = _score(comparison)
    if scores.loss > tolerance and scores.is_significant(LIKELY if comparison.is_new else level):
        yield f"{_in_words(comparison)[:-1]}: a loss of {tell_points(scores.loss)}, allowed: {tell_points(tolerance)}."
    if comparison.kind == "test" and scores.negative is not None:
        rate = scores.negative / scores.n
        limit = settings.max_negative_flips
        if rate > limit and binomial_tail(scores.n, limit, scores.negative) <= level:
            yield (
                f"On {_place(comparison)}, {scores.negative} of {scores.n} images were right before and are wrong now "
                f"({rate:.1%}, allowed: {limit:.1%})."
            )


def _worn_away(comparison: Comparison, best: Best | None, tolerance: float, level: float) -> Iterator[str]:
    """What was lost in small steps since the best version."""
    if best is None or comparison.kind != "test" or comparison.promoted is None:
        return
    scores = _score(comparison)
    loss = best.value - scores.after
    if loss > tolerance and stands_out((best.value, best.n), (scores.after, scores.n), level):
        yield (
            f"On {_place(comparison)}, measured accuracy is {scores.after:.1%} on {tell_count(scores.n, 'image')}, "
            f"and was {best.value:.1%} "
            f"with version {best.version}: a loss of {tell_points(loss)} since then, allowed: {tell_points(tolerance)}."
        )


def _collapsed(comparison: Comparison, share: float, classes: Sequence[str]) -> Iterator[str]:
    """Classes that are predicted less than `share` of their usual rate on the same images.

    Usual is what the promoted version predicts, but no more than there really are where labels tell: to stop calling
    things by a wrong name is no collapse; on the domain just learnt, no more than twice its even share. A class counts
    from 1 / share images on: with fewer, less than that share of them would be less than one image.
    """
    if comparison.promoted is None or comparison.kind in {"check", "taught"}:
        return
    known = [array for array in (comparison.promoted, comparison.labels) if array is not None]
    usual = np.min([np.bincount(array, minlength=len(classes)) for array in known], axis=0)
    if comparison.kind == "classes":
        usual = usual.clip(max=2 * len(comparison.candidate) // len(classes))
    now = np.bincount(comparison.candidate, minlength=len(classes))
    for number, name in enumerate(classes):
        if now[number] < share * usual[number] and share * usual[number] >= 1:
            yield (
                f"On {_place(comparison)}, class {name} collapsed: predicted for {now[number]} images, usual: {usual[number]}."
            )


def _ways_on(domain: str, number: int | None) -> str:
    """What a person may do where nothing but estimates speaks against a candidate."""
    publish = "" if number is None else f"`adaptd promote {number}` publishes it all the same; "
    return f"That is estimated without labels: {publish}a few labels decide: `adaptd labels template {domain}`."


def _score(comparison: Comparison) -> _Scores:
    n = len(comparison.candidate)
    if comparison.kind == "estimate":
        assert comparison.estimates is not None
        return _Scores(n, *comparison.estimates)
    assert comparison.promoted is not None
    assert comparison.labels is not None
    before, after = (np.equal(array, comparison.labels) for array in (comparison.promoted, comparison.candidate))
    negative, positive = int((before & ~after).sum()), int((after & ~before).sum())
    return _Scores(n, float(before.mean()), float(after.mean()), negative, positive)


def _figures(comparison: Comparison) -> dict[str, Any]:
    if comparison.promoted is None or comparison.kind == "classes":
        return {"n": len(comparison.candidate), "nonfinite": comparison.nonfinite}
    scores = _score(comparison)
    return {
        "n": scores.n,
        "promoted": scores.before,
        "candidate": scores.after,
        "negative_flips": scores.negative,
        "positive_flips": scores.positive,
        "nonfinite": comparison.nonfinite,
    }


def _in_words(comparison: Comparison, tolerance: float | None = None) -> str:
    """How it stands; and why it passed, where a tolerance is given."""
    if comparison.promoted is None:
        return f"On {_place(comparison)}, there is nothing to compare with."
    scores = _score(comparison)
    remark = "" if tolerance is None else _why_passed(scores, tolerance)
    if comparison.kind == "taught":
        remark = f": {_HELPED[scores.find_change()]}"
    return (
        f"On {_place(comparison)}, {_WORDS[comparison.kind]} went from {scores.before:.1%} to {scores.after:.1%} "
        f"on {tell_count(scores.n, 'image')}{remark}."
    )


def _why_passed(scores: _Scores, tolerance: float) -> str:
    if scores.loss <= 0:
        return ": no loss"
    if scores.loss > tolerance:
        return f": within chance (allowed: {tell_points(tolerance)})"
    return f": a loss of {tell_points(scores.loss)} (allowed: {tell_points(tolerance)})"


def _place(comparison: Comparison) -> str:
    return "the source" if comparison.domain in SOURCES else f"domain {comparison.domain}"
