"""The lock that makes a project's daemon the only one, and how others see it. The kernel frees it with the process."""

import fcntl
import os
from pathlib import Path

LOCK_FILE = "daemon.lock"


def find_daemon(state: Path) -> int | None:
    """The process id of the running daemon of a project, None where none runs. Changes nothing."""
    try:
        handle = os.open(state / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.read(handle, 32) or b"0")
    else:
        return None
    finally:
        os.close(handle)
