"""Stopping in order: a signal is noted, and the work asks between two files or steps. Nothing is torn in the middle."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from adaptd.errors import Interrupted


class Stop:
    """Whether the work should stop."""

    def __init__(self) -> None:
        self._signal: signal.Signals | None = None
        self.on_request: Callable[[], None] | None = None

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._signal is not None

    def request(self, number: int, _frame: FrameType | None = None) -> None:
        """Take note of a signal; a second one ends the process at once, which is as safe as any other way to die."""
        if self.requested:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.note(number)
        if sys.stderr.isatty():
            os.write(2, b"\nstopping after this step; once more stops at once\n")
        if self.on_request is not None:
            self.on_request()

    def note(self, number: int) -> None:
        """Take note of a signal, and no more."""
        self._signal = signal.Signals(number)

    def check(self) -> None:
        """Raise Interrupted if somebody asked."""
        if self._signal is not None:
            raise Interrupted(self._signal)


@contextmanager
def noting_signals() -> Iterator[Stop]:
    """For the length of a block SIGINT and SIGTERM are requests to stop."""
    stop = Stop()
    before = {number: signal.signal(number, stop.request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def noting_while_waiting() -> Iterator[Stop]:
    """As `noting_signals`, for work that only waits, perhaps within such a block: whoever noted signals before notes them too."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: FrameType | None) -> None:
        stop.note(number)
        handler = before[signal.Signals(number)]
        if callable(handler) and handler is not signal.default_int_handler:
            handler(number, frame)

    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
