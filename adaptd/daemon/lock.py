"""The lock that makes one process the only one working on a project, and how others see it.

The kernel frees it with the process, however that ends.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from adaptd.errors import ProjectBusy

LOCK_FILE = "daemon.lock"
LOOKS = 50
"""Times a lock is tried while only somebody like `status` looks at it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process at work on a project, and its command: `run` for the daemon."""

    pid: int
    command: str


def find_holder(state: Path) -> Holder | None:
    """Who works on the project; None where nobody does. Changes nothing."""
    try:
        handle = os.open(state / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, _, command = os.read(handle, 256).decode("ascii", "replace").partition(" ")
        return Holder(int(pid) if pid.isdecimal() else 0, command)
    else:
        return None
    finally:
        os.close(handle)


@contextmanager
def hold_project(state: Path, command: str) -> Iterator[None]:
    """Be the only one working on the project for the length of a block; ProjectBusy where another one is."""
    state.mkdir(parents=True, exist_ok=True)
    handle = os.open(state / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(handle, state)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} {command}".encode("ascii"), 0)
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
