"""When versions are measured on labels that people gave: once they pause, and not again and again where that fails."""

import math
import time

from adaptd.daemon.jobs import Job, JobEnd, JobKind, JobOutcome
from adaptd.releases.given import list_unmeasured
from adaptd.store import Transaction

STILL_SECONDS = 3.0
"""Labels are measured on when none was given or taken back for this long."""
AGAIN_SECONDS = 600.0
"""What could not be measured is tried again this often."""


class LabelWatch:
    """Looks for work in the store only after labels, versions or accuracies changed: looking costs a pass over R."""

    def __init__(self, still_seconds: float = STILL_SECONDS) -> None:
        self._still_seconds = still_seconds
        self._stamp: object = None
        self._due = 0.0

    def look(self, tx: Transaction) -> list[Job]:
        """A domain to measure; nothing while people are labelling."""
        stamp = (tx.labels.stamp(), tx.accuracies.stamp(), tx.versions.next_number())
        if stamp != self._stamp:
            # What is there at the start need not wait.
            self._due = 0.0 if self._stamp is None else max(self._due_again(), time.monotonic() + self._still_seconds)
            self._stamp = stamp
        if time.monotonic() < self._due:
            return []
        found = list_unmeasured(tx)
        if not found:
            self._due = math.inf
            return []
        domain = tx.domains.get(min(found))
        return [Job(JobKind.MEASURE, domain.id, domain.name)]

    def note_end(self, end: JobEnd) -> None:
        """A measurement is over."""
        if end.outcome is not JobOutcome.DONE:
            self._due = time.monotonic() + AGAIN_SECONDS

    def _due_again(self) -> float:
        return self._due if self._due < math.inf else 0.0
