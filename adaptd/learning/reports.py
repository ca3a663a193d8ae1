"""What an episode tells: step by step, added up, and in the end. Nothing here trains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adaptd.learning.grcl import MemorySelection


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step: `step` of `steps` done. A skipped step met a value that was not finite, and changed nothing.

    `health` is of the newest look at the target; `seconds_left` is until the end of training, None while that cannot be told.
    """

    step: int
    steps: int
    learning_rate: float
    images: int
    seconds: float
    skipped: bool
    losses: dict[str, float]
    norms: dict[str, float]
    multipliers: dict[str, float]
    health: dict[str, float]
    seconds_left: float | None = None

    @property
    def active(self) -> dict[str, bool]:
        """Which constraints bent the gradient."""
        return {name: u > 0 for name, u in self.multipliers.items()}

    @property
    def images_per_second(self) -> float:
        """Images trained on, over the time from reading them to the new weights."""
        return self.images / self.seconds


@dataclass(slots=True)
class Tally:
    """What is added up over an episode; part of its checkpoints."""

    step: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    images: int = 0
    seconds: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)
    active: dict[str, float] = field(default_factory=dict)
    before: dict[str, float | None] = field(default_factory=dict)
    converged_at: int | None = None
    survey_seconds: float = 0.0
    look_seconds: float = 0.0

    def add(self, report: StepReport) -> None:
        """Count a step."""
        self.step = report.step
        self.images += report.images
        self.seconds += report.seconds
        self.skipped += report.skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if report.skipped else 0
        _add(self.losses, report.losses)
        _add(self.active, report.active)

    def report(self, method: str, after: Mapping[str, float | None]) -> dict[str, Any]:
        """The episode in figures: means over the steps that counted, and whole-set losses before and after."""
        counted = max(1, self.step - self.skipped)
        return {
            "method": method,
            "steps": self.step,
            "skipped_steps": self.skipped,
            "converged_at": self.converged_at,
            "images": self.images,
            "seconds": self.seconds,
            "losses": {name: total / counted for name, total in self.losses.items()},
            "constraint_active_ratio": {name: count / counted for name, count in self.active.items()},
            "cross_entropy": {name: {"before": self.before[name], "after": after[name]} for name in after},
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an episode leaves behind, beside the trained model. No memory where there was no target domain."""

    memory: MemorySelection | None
    report: dict[str, Any]


def _add(totals: dict[str, float], values: Mapping[str, float]) -> None:
    for name, value in values.items():
        totals[name] = totals.get(name, 0.0) + value
