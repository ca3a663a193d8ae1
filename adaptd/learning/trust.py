"""Whether a model's own labels for a domain can be learned from. What is learned from them is a method's business.

A drop is held against the source that the model knows: how far classifier and clusters agree, how evenly classes are predicted,
and whether images differ at all to the model, each relative to the source. Their product is 1 for the source itself, and small
for a drop of one class, for noise, and for pictures of something else.
"""

from dataclasses import asdict, dataclass
from typing import Any

from adaptd.errors import DomainNotRecognised
from adaptd.learning.health import Health

LEAST = 0.1
"""A share of less than this is no better than this."""

FEW = 250
"""Among fewer images clusters follow the predictions, whatever these are: agreement is high and says little."""

ALIKE = 0.5
"""Features that are spread less than this share of the source's count against a domain."""

SKEWED, EVERY, COMPACT, UNSURE = 0.5, 0.85, 0.75, 0.6
"""Balance (twice), spread and confidence relative to the source, by which a refused drop is called one class, hard or strange."""

NEARLY_ALL = 0.9
"""Where this share of the images is taken for one class, the person is told so, whatever else is true of them."""


@dataclass(frozen=True, slots=True)
class Trust:
    """A domain beside the source, as many images of each, before the first step. Ratios are target to source, 1 at most.

    Args:
        images: of each.
        agreement: ratio of their κ.
        balance: ratio of the entropies of the predicted classes.
        spread: ratio of the variances of the features.
        confidence: ratio of the mean confidences.
        largest: the share of the target's images that the most frequent class is predicted for.
        largest_class: its name.
        single_class: how much the source's classes, each taken alone, are like the source.
    """

    images: int
    agreement: float
    balance: float
    spread: float
    confidence: float
    largest: float
    largest_class: str
    single_class: float

    @property
    def recognition(self) -> float:
        """Where the domain stands between one class of the source, 0, and the source, 1."""
        return (self.likeness - self.single_class) / (1 - self.single_class)

    @property
    def likeness(self) -> float:
        """1 where the model sees the domain as it sees the source."""
        return self.agreement * self.balance * min(1.0, self.spread / ALIKE)

    @property
    def looks_like_one_class(self) -> bool:
        """Few classes are predicted, the features lie close together, and the model is as sure as on the source."""
        return self.balance < SKEWED and self.spread < COMPACT and self.confidence >= UNSURE

    @property
    def looks_like_every_class(self) -> bool:
        """All classes are predicted, and features are as far apart as at home."""
        return self.balance >= EVERY and self.spread >= COMPACT

    def is_refused(self, least: float) -> bool:
        """Whether it is recognised less than that, or looks like one class and has too few images for agreement to count."""
        return least > 0 and (self.recognition < least or (self.looks_like_one_class and self.images < FEW))

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        return {**asdict(self), "recognition": self.recognition}


def compare(target: Health, source: Health, single_class: float = 0.0, largest_class: str = "") -> Trust:
    """Hold a domain against as many images of the source."""
    return Trust(
        images=target.images,
        agreement=_ratio(target.agreement, source.agreement),
        balance=_ratio(target.balance, source.balance),
        spread=_ratio(target.spread, source.spread),
        confidence=_ratio(target.confidence, source.confidence),
        largest=target.largest,
        largest_class=largest_class,
        single_class=min(0.9, single_class),
    )


def _ratio(target: float, source: float) -> float:
    return min(1.0, max(0.0, target) / max(LEAST, source))


def check_recognised(trust: Trust, least: float, setting: str) -> None:
    """Refuse a domain that is nearer to a single class of the source, or to noise, than to the source.

    Labels taken from there would teach the model its own mistakes.

    Args:
        trust: the domain beside the source.
        least: the least recognition allowed; 0: everything is learned from.
        setting: where that is set.

    Raises:
        DomainNotRecognised: it is less.
    """
    if not trust.is_refused(least):
        return
    told = (
        f"recognition {max(0.0, trust.recognition):.2f}, {setting} asks for {least:g} (agreement {trust.agreement:.0%} and class "
        f"balance {trust.balance:.0%} of the source's; {trust.largest:.0%} of the images are taken for {trust.largest_class})"
    )
    remedy = f"label some images with `adaptd labels template`, or lower {setting} and `adaptd retry` the domain"
    if trust.looks_like_one_class or trust.largest >= NEARLY_ALL:
        raise DomainNotRecognised(
            f"the images look like one class alone: {told}. A domain needs images of all classes. If it has them, {remedy}"
        )
    if trust.looks_like_every_class:
        raise DomainNotRecognised(
            f"the model hardly recognises these images: {told}. It sees all its classes in them, too vaguely to teach itself: "
            f"they are hard images of these classes, or of something else. If they are hard, {remedy}"
        )
    raise DomainNotRecognised(
        f"the model does not recognise these images: {told}. Look whether the folder holds what the classes are made of; "
        f"if it does, {remedy}"
    )
