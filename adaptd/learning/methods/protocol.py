"""The seam between the loop and the methods. The loop knows nothing else about them, and they nothing about it.

An episode goes: `pools` (what is in a batch) → `prepare` (build what the method owns) → `begin` at a fresh start, or
`restore` after a checkpoint → `update` for every step → `remember`.

A method with networks of its own (a discriminator, a second classifier) builds them in `prepare`, steps them inside
`update` with optimizers of its own, and lists their tensors in `tensors`. A method that moves the classifier several
times in a step calls `Trainee.apply` for all but the last.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import Batch, EpisodeData, Pool
from adaptd.learning.grcl import FlatParameters, MemorySelection
from adaptd.learning.plan import Plan
from adaptd.learning.survey import Surveys
from adaptd.project.settings import MemorySettings


@dataclass(frozen=True, slots=True)
class Trainee:
    """The classifier in training: itself, its parameters and gradient rows, a way to step along row 0, and that step's metric."""

    model: Classifier
    flat: FlatParameters
    apply: Callable[[], None]
    metric: Callable[[], Tensor | None]


@dataclass(frozen=True, slots=True)
class Update:
    """What a step did. Multipliers are those of the constraints, by name; above 0 means active."""

    losses: Mapping[str, float]
    norms: Mapping[str, float] = field(default_factory=dict)
    multipliers: Mapping[str, float] = field(default_factory=dict)


class Method(Protocol):
    """How an episode adapts a classifier."""

    @property
    def name(self) -> str:
        """Its name in settings and reports."""

    @property
    def trains_statistics(self) -> bool:
        """Whether BatchNorm learns its statistics and dropout is on; else the network is a fixed function of each image."""

    @property
    def settled(self) -> bool:
        """Whether going on as before would bring nothing: the episode then ends within an epoch, at a falling rate."""

    def pools(self, data: EpisodeData, plan: Plan) -> tuple[Pool, ...]:
        """The parts of a batch; passes over the last one are the epochs. None at all: the model is left alone."""

    def gradient_rows(self, pools: tuple[Pool, ...]) -> int:
        """How many gradient rows `update` wants."""

    def prepare(self, trainee: Trainee, pools: tuple[Pool, ...], plan: Plan) -> None:
        """Build what the method owns, the same each time."""

    def begin(self, surveys: Surveys) -> None:
        """A fresh start: what the model sees in everything, before the first step."""

    def update(self, batch: Batch) -> Update | None:
        """Leave the gradient to step with in row 0; None, and nothing changed, if a value is not finite."""

    def remember(self, surveys: Surveys, data: EpisodeData, quota: MemorySettings) -> MemorySelection | None:
        """The target's images to keep, after the last step; None if there is no target."""

    def tensors(self) -> dict[str, Tensor]:
        """What the method owns, for a checkpoint."""

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
