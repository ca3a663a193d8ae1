"""Wake-ups when something happens in the inbox. Remembers no event: what happened is for the scanner to find."""

import time
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from watchdog.events import (
    DirCreatedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from adaptd.machine import filesystem_kind, is_remote

GATHER_SECONDS = 0.1
"""After a wake-up, what else happens in this time belongs to it: a copy of many files gives few scans."""

# A new name is all that needs a scan before its time. Writing into a file is seen by the looks that a drop is due for anyway,
# and reporting it would fill watchdog's queue, which has no bound, with several events for each file.
_EVENTS: list[type[FileSystemEvent]] = [DirCreatedEvent, FileCreatedEvent, DirMovedEvent, FileMovedEvent]


class Watcher:
    """Sleeps until there is something to scan.

    Where the filesystem tells nothing (network, FUSE) or the kernel refuses (its limits on watches), `wait` returns every
    `poll_seconds` instead, and `trouble` says why. It watches anew by itself when the inbox was replaced by another folder.
    """

    def __init__(self, inbox: Path, poll_seconds: float = 2.0) -> None:
        self._inbox = inbox
        self._poll_seconds = poll_seconds
        # Unlike threading.Event, a SimpleQueue may be filled by a signal handler that interrupts `wait`.
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._observer: BaseObserver | None = None
        self._watched: tuple[int, int] | None = None
        self.trouble: str | None = None
        self.rearm()

    def wait(self, timeout: float) -> bool:
        """Sleep until something happened or `wake` was called: True; or for `timeout` seconds at most: False."""
        if self._is_replaced():
            self.rearm()
        if self.trouble is not None:
            timeout = min(timeout, self._poll_seconds)
        try:
            self._wakes.get(timeout=max(timeout, 0))
        except Empty:
            return False
        time.sleep(GATHER_SECONDS)
        while not self._wakes.empty():
            self._wakes.get()
        return True

    def wake(self) -> None:
        """End the current or next `wait`; for any thread, and for signal handlers."""
        if self._wakes.empty():
            self._wakes.put(None)

    def rearm(self) -> None:
        """Watch the inbox anew, as after it was away, or after limits were raised."""
        self.stop()
        self._watched = self._identity()
        self.trouble = self._arm()

    def stop(self) -> None:
        """Watch no more."""
        observer, self._observer = self._observer, None
        if observer is not None:
            _end(observer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _is_replaced(self) -> bool:
        """Whether the inbox is another folder than the one that is watched, even one with the same inode number."""
        ended = self._observer is not None and not all(emitter.is_alive() for emitter in self._observer.emitters)
        return ended or self._identity() != self._watched

    def _arm(self) -> str | None:
        """Start the observer; what stands in the way where it cannot."""
        if self._watched is None:
            return f"the inbox {self._inbox} is not there"
        kind = filesystem_kind(self._inbox)
        if is_remote(kind):
            return f"the inbox is on {kind}, which reports no changes: looking every {self._poll_seconds:g} s"
        try:
            observer = Observer()
        except OSError as error:
            return self._refused(error)
        try:
            observer.schedule(_Waking(self), str(self._inbox.resolve()), recursive=True, event_filter=_EVENTS)
            observer.start()
        except OSError as error:
            _end(observer)
            return self._refused(error)
        self._observer = observer
        return None

    def _refused(self, error: OSError) -> str:
        return (
            f"changes in the inbox are not reported: {error.strerror}; looking every {self._poll_seconds:g} s. "
            "Raise fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl"
        )

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._inbox.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


class _Waking(FileSystemEventHandler):
    """Turns every event into the same wake-up."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def dispatch(self, event: FileSystemEvent) -> None:  # noqa: ARG002
        self._watcher.wake()


def _end(observer: BaseObserver) -> None:
    """Stop all threads of an observer, even of one whose own thread never started."""
    observer.stop()
    if observer.is_alive():
        observer.join()
