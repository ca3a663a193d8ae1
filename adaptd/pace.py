"""How long work will take, told by how fast it went lately. Shows nothing."""

import time
from collections import deque
from collections.abc import Callable

WINDOW_SECONDS = 60.0
"""What is longer ago says nothing about what comes."""
LEAST_NOTES = 4
"""So many are needed before anything is promised: what comes first is slow for other reasons."""

Seen = Callable[[int], None]
"""Told how many more images a model has looked at."""


def ignore(count: int) -> None:
    """Nobody looks on."""


class Pace:
    """The time left of work that is counted up to a total. Of work that is resumed, only what was done since then counts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._notes: deque[tuple[float, int]] = deque()

    def note(self, done: int, total: int) -> float | None:
        """So much is done: seconds left, None while that cannot be told. Fewer than before, and something else has begun."""
        now, notes = self._clock(), self._notes
        if notes and done < notes[-1][1]:
            notes.clear()
        notes.append((now, done))
        while len(notes) > LEAST_NOTES and now - notes[0][0] > WINDOW_SECONDS:
            notes.popleft()
        (since, first), count = notes[0], len(notes)
        return (now - since) * (total - done) / (done - first) if count >= LEAST_NOTES and done > first else None


def tell_duration(seconds: float) -> str:
    """A duration as people say it: 8 s, 3 min, 1.5 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
