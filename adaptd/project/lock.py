"""The locks of a project: one process alone works on it, and one alone puts versions together. And how others see that.

The kernel frees a lock with its process, however that ends. The first lock's file also carries the process's health: its bytes
are reserved at the start, so that a full disk does not keep it from being written. Nobody else can open these files: whoever
can open one can hold it for ever.
"""

import contextlib
import fcntl
import json
import logging
import os
import random
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adaptd.errors import ProjectBusy
from adaptd.machine import list_lock_holders, process_user
from adaptd.signals import noting_while_waiting
from adaptd.text import escape_hidden

LOCK_FILE = "daemon.lock"
PUBLISHING_FILE = "publishing.lock"
SIZE = 16384
LOOKS = 50
"""Times a lock is tried while only somebody like `status` looks at it."""
SILENT_SECONDS = 1.0
"""Who waits for longer says so."""
POLL_SECONDS = 0.05
OTHERS = 0o077
"""What group and others may do with a file."""

log = logging.getLogger(__name__)


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


def make_private(state: Path) -> None:
    """The state folder, which is nobody else's business; one that others could enter is closed, and that is logged."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(state.stat().st_mode)
    if not mode & OTHERS:
        return
    try:
        state.chmod(mode & ~OTHERS)
    except OSError as problem:
        log.warning("%s is open to other users and cannot be closed: %s", escape_hidden(str(state)), problem.strerror)
    else:
        log.info("%s was open to other users (mode %04o): now it is ours alone", escape_hidden(str(state)), mode)


@contextmanager
def hold_project(state: Path, command: str) -> Iterator[LockFile]:
    """Be the only one working on the project for the length of a block; ProjectBusy where another one is."""
    make_private(state)
    handle = _hold_or_refuse(state)
    try:
        yield LockFile(handle, command)
    finally:
        os.close(handle)


@contextmanager
def publishing_alone(state: Path) -> Iterator[None]:
    """Be the only one who puts versions together; others wait. A person may roll back while the daemon works.

    Raises:
        Interrupted: SIGINT or SIGTERM came while waiting.
    """
    handle = _wait_for(state / PUBLISHING_FILE)
    try:
        yield
    finally:
        os.close(handle)


def _hold_or_refuse(state: Path) -> int:
    for _ in range(LOOKS):
        handle = _try(state / LOCK_FILE)
        if handle is not None:
            return handle
        # find_holder holds the lock for a moment too, and that is nobody at work.
        other = find_holder(state)
        if other is not None:
            raise ProjectBusy(
                f"process {other.pid} (adaptd {other.command}) is working on {state.parent}: wait for it, or stop it first"
            )
        time.sleep(random.uniform(0.005, 0.015))  # noqa: S311 (so that those who came together do not try together)
    raise ProjectBusy(f"another process is working on {state.parent}: wait for it, or stop it first")


def _wait_for(path: Path) -> int:
    """The lock, as soon as it is free; after a while it is said for whom we wait."""
    start, is_said = time.monotonic(), False
    with noting_while_waiting() as stop:
        while (handle := _try(path)) is None:
            stop.check()
            if not is_said and time.monotonic() - start > SILENT_SECONDS:
                holders = ", ".join(map(str, list_lock_holders(path.stat().st_ino))) or "unknown"
                log.warning("waiting for pid %s which holds %s", holders, escape_hidden(str(path)))
                is_said = True
            time.sleep(POLL_SECONDS)
    return handle


def _try(path: Path) -> int | None:
    """The lock as an open file; None where another process has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    is_open_to_others = bool(os.fstat(handle).st_mode & OTHERS)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        is_ours = not is_open_to_others or _is_held_by_us(handle)
        taken = None if is_ours else _replace(path, handle)
    else:
        if is_open_to_others:
            taken = _replace(path, handle)
        elif _is_at(handle, path):
            return handle
        else:
            taken = None
    os.close(handle)
    return taken


def _is_held_by_us(handle: int) -> bool:
    """Whether a process that may work on the project holds it; where that cannot be known, one does."""
    status = os.fstat(handle)
    ours = {0, os.geteuid(), status.st_uid, None}
    holders = list_lock_holders(status.st_ino)
    return not holders or any(process_user(pid) in ours for pid in holders)


def _replace(path: Path, old: int) -> int | None:
    """A new lock file that nobody else ever opened, held, in place of one that others may hold; None where we came late."""
    draft = path.with_name(f".{path.name}")
    handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(handle, draft) and _is_at(old, path):
            draft.rename(path)
            log.info("%s was open to other users: replaced", escape_hidden(str(path)))
            return handle
        if _is_at(handle, draft):
            draft.unlink()
    except BlockingIOError:
        pass
    os.close(handle)
    return None


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one that stands at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False
