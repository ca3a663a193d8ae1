"""Work that the machine may hold up (disk full, database locked): why it waits, and when it is tried again. Does no work."""

import logging
import time
from collections.abc import Callable

from adaptd.errors import IntakeError, StoreError

SECONDS = (2.0, 30.0)
"""The next try comes this soon at first, and this late at most."""

log = logging.getLogger(__name__)


class Patience:
    """One kind of work. Trouble is logged when it begins, when it changes and when it is over; not at every try."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._reason = ""
        self._retry_at, self._seconds = 0.0, SECONDS[0]
        self.tries = 0
        """How often in a row it did not go well."""

    @property
    def trouble(self) -> str:
        """Why it waits; empty where it does not."""
        return self._reason if time.monotonic() < self._retry_at else ""

    def attempt(self, act: Callable[[], None]) -> bool:
        """Do it unless it waits; whether that went well."""
        if self.trouble:
            return False
        try:
            act()
        except (StoreError, IntakeError, OSError) as problem:
            self.postpone(str(problem))
            return False
        self.clear()
        return True

    def postpone(self, reason: str) -> None:
        """It did not go well."""
        if reason != self._reason:
            log.error("%s is in trouble, trying again: %s", self._work, reason)
        self._reason = reason
        self._retry_at = time.monotonic() + self._seconds
        self._seconds = min(self._seconds * 2, SECONDS[1])
        self.tries += 1

    def clear(self) -> None:
        """It went well."""
        if self._reason:
            log.info("%s is out of trouble", self._work)
        self._reason, self._retry_at, self._seconds, self.tries = "", 0.0, SECONDS[0], 0
