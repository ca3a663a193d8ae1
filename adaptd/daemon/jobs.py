"""Jobs: what a worker is started for, and how that ended. Starts nothing."""

import json
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class JobKind(StrEnum):
    """What a worker does."""

    IMPORT = "import"
    EPISODE = "episode"
    PUBLISH = "publish"
    MEASURE = "measure"


class JobOutcome(StrEnum):
    """What came of a job.

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
    """Work for one process: a domain to import or to measure, or an episode to train, by id; a version to export, by number.

    `number` is what people know it by: the number that the episode will have, or the version.
    """

    kind: JobKind
    key: int
    domain: str = ""
    number: int | None = None

    @property
    def log_fields(self) -> dict[str, object]:
        """What a log line says of it; nobody sees a row's id."""
        fields: dict[str, object] = {"domain": self.domain} if self.domain else {}
        if self.number is not None:
            fields["version" if self.kind is JobKind.PUBLISH else "episode"] = self.number
        return fields


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended, and why."""

    outcome: JobOutcome
    reason: str

    def to_line(self) -> str:
        """As a worker writes it to its standard output."""
        return json.dumps({"outcome": self.outcome, "reason": self.reason})

    @classmethod
    def from_line(cls, line: str, code: int) -> Self:
        """What a worker wrote last; one that was killed wrote nothing."""
        try:
            words = json.loads(line)
            return cls(JobOutcome(words["outcome"]), str(words["reason"]))
        except (ValueError, KeyError, TypeError):
            if code == -signal.SIGKILL:
                return cls(JobOutcome.CRASHED, "it was killed by SIGKILL, as the kernel does when memory runs out")
            how = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
            return cls(JobOutcome.CRASHED, f"{how}; its log lines tell more")
