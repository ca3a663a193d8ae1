"""Faults in the system calls of a command, by strace."""

import signal
import subprocess
import time
from pathlib import Path

ATTACH_SECONDS = 30


def run_with_fault(process, call: str, fault: str, log: Path) -> int:
    """Let a process that was started stopped run with a fault in one of its calls; its exit code. `log` takes the calls."""
    _wait(process.pid, lambda status: "State:\tT" in status)
    strace = ["strace", "-f", "-y", "-qq", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]
    tracer = subprocess.Popen([*strace, "-p", str(process.pid)], stderr=subprocess.DEVNULL)
    _wait(process.pid, lambda status: "TracerPid:\t0" not in status)
    process.signal(signal.SIGCONT)
    code = process.wait().returncode
    tracer.wait(60)
    return code


def _wait(pid: int, is_so) -> None:
    deadline = time.monotonic() + ATTACH_SECONDS
    while not is_so(Path(f"/proc/{pid}/status").read_text()):
        assert time.monotonic() < deadline, "strace cannot trace it"
        time.sleep(0.001)
