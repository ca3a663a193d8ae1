"""Progress of long work: a bar with time left on a terminal, a plain line now and then otherwise.

Time left comes from a moving window of what was done since the work began here: nothing is promised by the first steps, and
what was done before an interruption does not count.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from adaptd.cli.output import say
from adaptd.pace import Pace, tell_duration

LINE_SECONDS = 10.0


BY_PACE = -1.0
"""The time left is told by what is done."""


class Show(Protocol):
    """Told how much is done, of how much, and perhaps a remark.

    `phase` is what is done beside the counted work, with its own count; of 0 where it is not counted. `left` are the seconds
    left; None where they are not known.
    """

    def __call__(self, done: int, total: int, note: str = "", *, phase: str = "", left: float | None = BY_PACE) -> None:
        """Show it."""


@contextmanager
def progress_bar(title: str) -> Iterator[Show]:
    """A bar on standard error for the length of a block; standard output stays clean for results."""
    if sys.stderr.isatty():
        yield from _bar(title)
    else:
        yield _lines(title)


class _Left:
    """The time left, in words."""

    def __init__(self) -> None:
        self._pace, self._phase = Pace(), ""

    def tell(self, done: int, total: int, phase: str, left: float | None) -> str:
        if phase != self._phase:
            self._pace, self._phase = Pace(), phase
        seconds = self._pace.note(done, total) if left == BY_PACE else left
        return f"about {tell_duration(seconds)} left" if seconds is not None and done < total else ""


def _bar(title: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:30.30}"), BarColumn(bar_width=30), MofNCompleteColumn())
    texts = (TextColumn("{task.fields[left]}"), TextColumn("{task.fields[note]}", style="dim"))
    with Progress(*columns, *texts, console=Console(stderr=True)) as progress:
        task, time_left = progress.add_task(title, total=None, note="", left=""), _Left()

        def show(done: int, total: int, note: str = "", *, phase: str = "", left: float | None = BY_PACE) -> None:
            words = time_left.tell(done, total, phase, left)
            name = f"{title}, {phase}" if phase else title
            progress.update(task, description=name, completed=done, total=total or None, note=note, left=words)

        yield show


def _lines(title: str) -> Show:
    last, before, time_left = time.monotonic(), "", _Left()

    def show(done: int, total: int, note: str = "", *, phase: str = "", left: float | None = BY_PACE) -> None:
        nonlocal last, before
        words, now = time_left.tell(done, total, phase, left), time.monotonic()
        is_told = now - last >= LINE_SECONDS or (done >= total and not phase) or (phase != before and not total)
        before = phase
        if not is_told:
            return
        last = now
        counted = f" {done}/{total}" if total else ""
        parts = [f"{title}{f', {phase}' if phase else ''}:{counted}" if counted else f"{title}: {phase}", words, note]
        say(", ".join(part for part in parts if part), err=True)

    return show
