"""What changes by the second, as server-sent events: read once for all who listen. The pages' script does the rest."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from adaptd.errors import RequestRefused, StoreError
from adaptd.observe.dashboard.site import Site
from adaptd.observe.status import describe_running, find_running

PULSE_SECONDS = 1.0
MAX_LISTENERS = 32
NAP_SECONDS = 0.1
"""How soon a listener hears that the daemon stops."""


class Pulse:
    """The daemon's state, the running episode, and a stamp that changes when a page should be read again."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._read_at, self._said = -PULSE_SECONDS, ""
        self._listeners = 0
        self.closing = threading.Event()

    def check_room(self) -> None:
        """Refuse one listener too many: each keeps a connection."""
        if self._listeners >= MAX_LISTENERS:
            raise RequestRefused(503, f"{MAX_LISTENERS} pages are being kept up to date already; reload this one by hand")

    def read(self) -> str:
        """As JSON, at most a pulse old."""
        with self._lock:
            if time.monotonic() - self._read_at >= PULSE_SECONDS:
                self._said = json.dumps(self._look())
                self._read_at = time.monotonic()
            return self._said

    def _look(self) -> dict[str, Any]:
        holder = self._site.find_holder()
        health = {} if holder is None else holder.health
        with self._site.store.reading() as tx:
            running = find_running(tx)
            episode = None if running is None else describe_running(tx, running)
            latest = tx.events.list_latest(1)
        event = latest[0].id if latest else 0
        phase = (episode["started_at"], episode["phase"]) if episode else None
        stamp = f"{event} {health.get('state')} {phase} {health.get('warnings')}"
        return {"stamp": stamp, "state": health.get("state", "stopped"), "episode": episode}

    async def listen(self) -> AsyncIterator[str]:
        """Events for one listener, until the daemon stops."""
        self._listeners += 1
        try:
            while not self.closing.is_set():
                try:
                    said = await asyncio.to_thread(self.read)
                except StoreError:
                    said = ""  # the page keeps what it shows; the daemon's own warnings tell why
                yield f"data: {said}\n\n" if said else ": the store cannot be read\n\n"
                for _ in range(round(PULSE_SECONDS / NAP_SECONDS)):
                    await asyncio.sleep(NAP_SECONDS)
                    if self.closing.is_set():
                        return
        finally:
            self._listeners -= 1
