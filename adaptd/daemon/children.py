"""Worker processes as the supervisor sees them: started, asked to stop, and what they said in the end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from adaptd.project.layers import Project
from adaptd.project.settings import Settings


class Kind(StrEnum):
    """What a worker does."""

    IMPORT = "import"
    EPISODE = "episode"
    PUBLISH = "publish"


class Outcome(StrEnum):
    """How a worker's work ended.

    `failed` is the work's own fault and recorded with its reason; `trouble` is the machine's (disk full, database locked), and
    trying again later helps; `crashed` is anything nobody expected.
    """

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    TAKEN = "taken"
    TROUBLE = "trouble"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Job:
    """Work for one process: a domain to import or an episode to train, by id; a version to export again, by number."""

    kind: Kind
    key: int
    domain: str
    number: int | None = None
    """What people call it: an episode's number, a version's; an import has none."""

    @property
    def log_fields(self) -> dict[str, object]:
        """What log lines tell of it; never the id of a row."""
        return {"domain": self.domain} | ({} if self.number is None else {str(self.kind): self.number})


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended."""

    outcome: Outcome
    reason: str

    def to_line(self) -> str:
        """As a worker says it on its standard output."""
        return json.dumps({"outcome": self.outcome, "reason": self.reason})

    @classmethod
    def from_line(cls, line: str, code: int) -> Self:
        """What a worker said; one that was killed said nothing."""
        try:
            said = json.loads(line)
            return cls(Outcome(said["outcome"]), str(said["reason"]))
        except (ValueError, KeyError, TypeError):
            if code == -signal.SIGKILL:
                return cls(Outcome.CRASHED, "it was killed by SIGKILL, as the kernel does when memory runs out")
            how = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
            return cls(Outcome.CRASHED, f"{how}; its log lines tell more")


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
        self._asked = False
        self._said = ""
        self._send(project.settings)
        self._listener = threading.Thread(target=self._listen, args=(wake,), name=f"{job.kind} {job.key}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def find_end(self) -> Ended | None:
        """How it ended; None while it runs."""
        if self._listener.is_alive():
            return None
        code = self._process.wait()
        if self._asked and code == -signal.SIGTERM:
            return Ended(Outcome.STOPPED, "it was stopped before it began")
        return Ended.from_line(self._said, code)

    def ask_to_stop(self) -> None:
        """Once: a second SIGTERM would end it without a checkpoint."""
        if not self._asked:
            self._asked = True
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
        self._said = lines[-1] if lines else ""
        wake()
