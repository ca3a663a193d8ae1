"""Worker processes as the supervisor sees them: started, asked to stop, and how they ended."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from adaptd.daemon.jobs import Job, JobEnd, JobKind, JobOutcome
from adaptd.project.layers import Project
from adaptd.project.settings import Settings

log = logging.getLogger(__name__)


class Child:
    """A running worker."""

    def __init__(self, project: Project, job: Job, wake: Callable[[], None]) -> None:
        self.job = job
        command = [sys.executable, "-m", "adaptd.daemon.worker", str(project.root), job.kind, str(job.key), str(os.getpid())]
        # Threads that wait for work must not burn the cores that others need. A session of its own keeps Ctrl-C from it.
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        self._is_stopping = False
        self._last_line = ""
        self._send(project.settings)
        self._listener = threading.Thread(target=self._listen, args=(wake,), name=f"{job.kind} {job.key}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def find_end(self) -> JobEnd | None:
        """How it ended; None while it runs."""
        if self._listener.is_alive():
            return None
        code = self._process.wait()
        if self._is_stopping and code == -signal.SIGTERM:
            return JobEnd(JobOutcome.STOPPED, "it was stopped before it began")
        return JobEnd.from_line(self._last_line, code)

    def request_stop(self) -> None:
        """Once: a second SIGTERM would end it without a checkpoint."""
        if not self._is_stopping:
            self._is_stopping = True
            self._process.terminate()

    def kill(self) -> None:
        """At once."""
        self._process.kill()

    def wait(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        self._listener.join(seconds)
        return not self._listener.is_alive()

    def _send(self, settings: Settings) -> None:
        """The settings that this daemon runs with: in the file there may be others by now. The pipe holds them all at once."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(settings.with_secrets())

    def _listen(self, wake: Callable[[], None]) -> None:
        assert self._process.stdout is not None
        lines = self._process.stdout.read().splitlines()
        self._process.wait()
        self._last_line = lines[-1] if lines else ""
        wake()


class Children:
    """The running workers, at most one of each kind."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._running: dict[JobKind, Child] = {}

    def is_running(self, kind: JobKind) -> bool:
        """Whether there is a worker of this kind."""
        return kind in self._running

    def list_running(self) -> tuple[Child, ...]:
        """All of them."""
        return tuple(self._running.values())

    def start(self, project: Project, job: Job) -> None:
        """Start a worker."""
        child = self._running[job.kind] = Child(project, job, self._wake)
        log.info("%s begins", job.kind, extra=job.log_fields | {"pid": child.pid})

    def collect_ended(self) -> list[tuple[Job, JobEnd]]:
        """Those that ended since, and how."""
        ended = [(child.job, end) for child in self.list_running() if (end := child.find_end()) is not None]
        for job, end in ended:
            del self._running[job.kind]
            _log_end(job, end)
        return ended

    def cancel(self, child: Child, seconds: float) -> list[tuple[Job, JobEnd]]:
        """End a worker without a checkpoint; nothing where that takes longer than this time."""
        child.kill()
        if not child.wait(seconds):
            return []
        del self._running[child.job.kind]
        end = JobEnd(JobOutcome.TAKEN, "it was cancelled")
        _log_end(child.job, end)
        return [(child.job, end)]

    def stop(self, seconds: float) -> None:
        """Let all of them write their checkpoints, in this time together, and end."""
        for child in self.list_running():
            child.request_stop()
        deadline = time.monotonic() + seconds
        for child in self.list_running():
            if not child.wait(max(0.0, deadline - time.monotonic())):
                child.kill()
                child.wait(seconds)


def _log_end(job: Job, end: JobEnd) -> None:
    level = logging.INFO if end.outcome is JobOutcome.DONE else logging.WARNING
    log.log(level, end.reason, extra=job.log_fields | {"outcome": str(end.outcome)})
