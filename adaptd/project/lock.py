"""The lock that makes one process the only one working on a project, and how others see it.

The kernel frees it with the process, however that ends. The lock file also carries the process's health: its bytes are
reserved at the start, so that a full disk does not keep it from being written.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adaptd.errors import ProjectBusy

LOCK_FILE = "daemon.lock"
PUBLISHING_FILE = "publishing.lock"
SIZE = 16384
LOOKS = 50
"""Times a lock is tried while only somebody like `status` looks at it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process at work on a project, its command (`run` for the daemon), and its health."""

    pid: int
    command: str
    health: dict[str, Any] = field(default_factory=dict)


class LockFile:
    """The lock file as its holder sees it, who writes there how it is."""

    def __init__(self, handle: int, command: str) -> None:
        self._handle, self._command = handle, command
        self._last = b""
        self.write_health({})

    def write_health(self, health: Mapping[str, Any]) -> None:
        """Replace what was written before; too long a list of warnings is cut."""
        document = dict(health)
        while len(text := self._render(document)) > SIZE and document.get("warnings"):
            document["warnings"] = document["warnings"][:-1]
        if text != self._last:
            # That it cannot be written, for want of room or because the disk is broken, must not stop the work.
            with contextlib.suppress(OSError):
                os.pwrite(self._handle, text.ljust(SIZE), 0)
                self._last = text

    def _render(self, document: Mapping[str, Any]) -> bytes:
        return f"{os.getpid()} {self._command}\n{json.dumps(document)}".encode()


def find_holder(state: Path) -> Holder | None:
    """Who works on the project; None where nobody does. Changes nothing."""
    try:
        handle = os.open(state / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _parse(os.pread(handle, SIZE, 0).decode("utf-8", "replace"))
    else:
        return None
    finally:
        os.close(handle)


def _parse(text: str) -> Holder:
    first, _, rest = text.partition("\n")
    pid, _, command = first.partition(" ")
    try:
        health = json.loads(rest)
    except ValueError:  # read while it was written
        health = {}
    return Holder(int(pid) if pid.isdecimal() else 0, command, health)


@contextmanager
def hold_project(state: Path, command: str) -> Iterator[LockFile]:
    """Be the only one working on the project for the length of a block; ProjectBusy where another one is."""
    state.mkdir(parents=True, exist_ok=True)
    handle = os.open(state / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(handle, state)
        yield LockFile(handle, command)
    finally:
        os.close(handle)


@contextmanager
def publishing_alone(state: Path) -> Iterator[None]:
    """Be the only one who puts versions together; others wait. A person may roll back while the daemon works."""
    handle = os.open(state / PUBLISHING_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, state: Path) -> None:
    for _ in range(LOOKS):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # find_holder holds the lock for a moment too, and that is nobody at work.
            other = find_holder(state)
            if other is not None:
                raise ProjectBusy(
                    f"process {other.pid} (adaptd {other.command}) is working on {state.parent}: wait for it, or stop it first"
                ) from None
            time.sleep(0.01)
    raise ProjectBusy(f"another process is working on {state.parent}: wait for it, or stop it first")
