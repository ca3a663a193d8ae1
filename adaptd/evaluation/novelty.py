"""Whether a drop is a new domain: its distance to the source and to every known domain, and what that comes to. No torch here.

A drop is known as a domain from which it cannot be told apart. Told apart are two samples that differ by more than chance
explains *and* by more than is tolerated: thousands of images show differences that do not matter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from adaptd.evaluation.shift import View, compare_features, compare_outputs
from adaptd.project.settings import ENOUGH_TO_TELL

LEVEL = 0.01
"""Of drops of a known domain at most this share is taken for new, over all drops and all comparisons together."""
TOLERATED_AUC, TOLERATED_DISTANCE = 0.6, 0.15
"""What is no difference that matters, in the features and in a class's probability: for two bell curves they are the same."""
CLOSE_AUC = 0.8
"""Beyond this, no other choice of images of the same domain makes a drop known."""
ENOUGH_TO_COMPARE = 2 * ENOUGH_TO_TELL
"""Images that a reference needs: half of it is compared with the other half."""
MOST_IMAGES = 1000
"""As many of a drop and of a reference are looked at."""


class Verdict(StrEnum):
    """What a drop is."""

    NEW = "new"
    KNOWN = "known"
    TOO_FEW = "too few to tell"


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a drop is from a known domain.

    Args:
        domain: its name.
        images: of it that the drop was compared with.
        auc: of a domain classifier on the features, 0.5 where it can only guess.
        usual_auc: what it reaches between images of the known domain.
        features_p: how likely chance gives such an AUC.
        shifted_class: whose probability differs most.
        class_distance: the largest difference of its two distribution functions.
        outputs_p: how likely chance gives that, for the worst of all classes.
        told_apart: whether the drop differs, by more than chance and by more than is tolerated.
    """

    domain: str
    images: int
    auc: float
    usual_auc: float
    features_p: float
    shifted_class: str
    class_distance: float
    outputs_p: float
    told_apart: bool


@dataclass(frozen=True, slots=True)
class Novelty:
    """What was found out about a drop of `images` images; of `known_as` it is one more drop.

    `copied`: every one of them is in a known domain, byte for byte.
    """

    verdict: Verdict
    message: str
    images: int
    level: float
    known_as: str | None = None
    distances: tuple[Distance, ...] = ()
    copied: bool = False

    def to_json(self) -> dict[str, Any]:
        """As an episode's report has it."""
        return asdict(self)


def correct_level(drops: int, known: int) -> float:
    """The p below which one of the two tests tells a drop from one domain: Bonferroni's, for all drops and known domains."""
    return LEVEL / (2 * max(1, drops) * max(1, known))


def measure_distance(domain: str, drop: View, reference: View, classes: Sequence[str], level: float, seed: int) -> Distance:
    """Compare a drop with images of a known domain."""
    outputs, features = compare_outputs(drop, reference), compare_features(drop, reference, seed)
    differs = (
        (outputs.p < level and outputs.distance > TOLERATED_DISTANCE),
        (features.p < level and features.auc > TOLERATED_AUC),
    )
    return Distance(
        domain=domain,
        images=len(reference),
        auc=features.auc,
        usual_auc=features.usual,
        features_p=features.p,
        shifted_class=classes[outputs.index],
        class_distance=outputs.distance,
        outputs_p=outputs.p,
        told_apart=any(differs),
    )


def find_nearest(references: Iterable[View], measure: Callable[[View], Distance]) -> Distance | None:
    """The distance to the nearest choice of images of one domain; None where none has enough.

    Images that a model learned from look surer than others. A drop may bring the one or the other, and is as near as the nearer.
    """
    nearest: Distance | None = None
    for reference in references:
        if len(reference) < ENOUGH_TO_COMPARE:
            continue
        found = measure(reference)
        if nearest is None or _rank(found) < _rank(nearest):
            nearest = found
        if not nearest.told_apart or nearest.auc > CLOSE_AUC:
            break
    return nearest


def decide_copied(name: str, images: int, shared: Mapping[str, frozenset[str]], level: float) -> Novelty | None:
    """That a drop brings no image that is not in a known domain; None where it brings one.

    Args:
        name: the drop's.
        images: how many it has.
        shared: by known domain, the hashes of those that it has too.
        level: of the tests that need not be made.
    """
    if not images or len(frozenset[str]().union(*shared.values())) < images:
        return None
    most = sorted((domain for domain in shared if shared[domain]), key=lambda domain: -len(shared[domain]))
    where = most[0] if len(shared[most[0]]) == images else ", ".join(most)
    message = f"{name} is no new domain: every image of it is in {where} already"
    return Novelty(Verdict.KNOWN, message, images, level, most[0], copied=True)


def decide(name: str, images: int, distances: Iterable[Distance], level: float) -> Novelty:
    """What a drop is, from its distances to all known domains that can be compared."""
    ordered = tuple(sorted(distances, key=_rank))
    if images < ENOUGH_TO_TELL or not ordered:
        who = f"its {images} images" if images < ENOUGH_TO_TELL else "the images of the known domains"
        message = f"whether {name} is new cannot be told: {who} are too few; it is taken as new"
        return Novelty(Verdict.TOO_FEW, message, images, level)
    nearest = ordered[0]
    auc = f"AUC {nearest.auc:.2f}, where 0.5 is a guess"
    if nearest.told_apart:
        message = f"{name} is a new domain; {nearest.domain} is the nearest that is known ({auc})"
        return Novelty(Verdict.NEW, message, images, level, distances=ordered)
    message = f"{name} is no new domain: its images cannot be told from those of {nearest.domain} ({auc})"
    return Novelty(Verdict.KNOWN, message, images, level, nearest.domain, ordered)


def _rank(distance: Distance) -> tuple[bool, float]:
    """Nearest first; what cannot be told apart before everything else."""
    return distance.told_apart, max(distance.auc, 0.5) + distance.class_distance
