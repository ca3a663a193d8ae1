"""Who works on an episode: taking its lease, keeping it while the work lasts, and finding out that an owner is gone.

An owner is gone when its process is, when its machine was started again, or when it did not renew its lease in time: on this boot
by the monotonic clock; on another machine, whose clock means nothing here, when nothing happened to the lease while we watched
for as long as one lasts. The wall clock decides nothing.
"""

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from adaptd.errors import StoreConflict, StoreError
from adaptd.machine import boot_id, process_started
from adaptd.project.layers import Project
from adaptd.records import Lease
from adaptd.store import Store

LEASE_SECONDS = 60.0
"""A lease that was not renewed for this long is over."""
RENEW_SECONDS = 20.0
"""A lease is renewed this often: one that fails, for a locked database, leaves time for another."""
PATIENCE_SECONDS = 300.0
"""How long a write that the episode cannot do without waits for a locked database."""
WATCH_SECONDS = 0.5
"""While another owner may still be there, its lease is looked at this often."""

log = logging.getLogger(__name__)


def name_owner() -> str:
    """This process, told from a later one with the same id by when it started."""
    return f"{socket.gethostname()}:{os.getpid()}:{process_started(os.getpid())}"


@contextmanager
def holding_lease(
    project: Project, store: Store, episode_id: int, check_stop: Callable[[], None] = lambda: None
) -> Iterator[Lease]:
    """Take an episode's lease, keep it for the length of a block, however long nothing else is written, and give it back.

    Raises:
        StoreConflict: the episode is over, or another one works on it.
    """
    lease, over = take_lease(store, episode_id, check_stop), threading.Event()
    threading.Thread(target=_renew, args=(project, episode_id, lease, over), name="lease", daemon=True).start()
    try:
        yield lease
    finally:
        # Not joined: it may wait for a locked database, and once the lease is given back it renews nothing.
        over.set()
        # A conflict is no trouble: it ended with the episode, or somebody else has it. And what cannot be written expires.
        with contextlib.suppress(StoreError), store.writing() as tx:
            tx.episodes.release(episode_id, lease)


def _renew(project: Project, episode_id: int, lease: Lease, over: threading.Event) -> None:
    """Renew a lease until the work is over or the lease is lost, which the work finds out with its next write."""
    while not over.wait(RENEW_SECONDS):
        try:
            # A store of its own: the other one has one connection for writing, and the work must never wait for us.
            with Store(project.database, project.settings.database.busy_timeout_seconds) as store, store.writing() as tx:
                tx.episodes.renew(episode_id, lease, time.monotonic() + LEASE_SECONDS)
        except StoreConflict:
            return
        except StoreError as problem:
            log.warning("the lease was not renewed: %s", problem)


def take_lease(store: Store, episode_id: int, check_stop: Callable[[], None] = lambda: None) -> Lease:
    """Become the one who works on an episode; waits for an owner that may be gone, at most as long as a lease lasts.

    Args:
        store: where leases are.
        episode_id: the episode.
        check_stop: called while waiting; may raise.

    Raises:
        StoreConflict: the episode is over, or its owner renews its lease.
    """
    watched_since, seen = time.monotonic(), None
    while True:
        with store.reading() as tx:
            standing = tx.episodes.get(episode_id).lease
        now = time.monotonic()
        if standing is None or is_gone(standing, now) or (standing == seen and now - watched_since >= LEASE_SECONDS):
            with store.writing() as tx:
                return tx.episodes.lease(episode_id, name_owner(), boot_id(), now + LEASE_SECONDS, gone=standing)
        if seen not in {None, standing}:
            raise StoreConflict(f"the episode is being worked on by {standing.owner}: stop that process first, or wait for it")
        seen = standing
        check_stop()
        time.sleep(WATCH_SECONDS)


def is_gone(lease: Lease, now: float) -> bool:
    """Whether the owner of a lease cannot be at work any more, as far as this machine can tell at once."""
    host, pid, started = lease.owner.rsplit(":", 2)
    is_this_host, is_this_boot = host == socket.gethostname(), lease.boot_id == boot_id()
    if not is_this_boot:
        return is_this_host
    return now >= lease.expires_monotonic or (is_this_host and process_started(int(pid)) != started)
