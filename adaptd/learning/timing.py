"""How long an episode takes on this machine, from a few measured steps and looks. Nothing here trains."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

COLD, MEASURED, WINDOW = 2, 3, 30
"""The first steps are slow; so many after them are enough to go by; and no more than the last ones are gone by."""


@dataclass(slots=True)
class Timing:
    """What steps took lately, without the looks between epochs. Not in checkpoints: another machine is as fast as it is."""

    count: int = 0
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def add(self, seconds: float) -> None:
        """A step was taken."""
        self.count += 1
        if self.count > COLD:
            self.steps.append(seconds)

    def step_seconds(self) -> float | None:
        """What a step takes; None while too few were measured."""
        return median(self.steps) if len(self.steps) >= MEASURED else None
