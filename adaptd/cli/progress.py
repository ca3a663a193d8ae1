"""Progress of long work: a bar with time left on a terminal, a plain line now and then otherwise."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from adaptd.cli.output import say

LINE_SECONDS = 10.0


class Show(Protocol):
    """Told how much is done, of how much, and perhaps a remark."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Show it."""


@contextmanager
def progress_bar(title: str) -> Iterator[Show]:
    """A bar on standard error for the length of a block; standard output stays clean for results."""
    if sys.stderr.isatty():
        yield from _bar(title)
    else:
        yield _lines(title)


def _bar(title: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:20.20}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[note]}", style="dim"), console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None, note="")

        def show(done: int, total: int, note: str = "") -> None:
            progress.update(task, completed=done, total=total, note=note)

        yield show


def _lines(title: str) -> Show:
    start = last = time.monotonic()
    before = 0

    def show(done: int, total: int, note: str = "") -> None:
        nonlocal start, last, before
        now = time.monotonic()
        if done < before:  # the next phase begins: its time left is its own
            start = last = now
        before = done
        if done < total and now - last < LINE_SECONDS:
            return
        last = now
        left = f", {(now - start) * (total - done) / done:.0f} s left" if 0 < done < total else ""
        say(f"{title}: {done}/{total}{left}{f', {note}' if note else ''}", err=True)

    return show
