"""Leases: one owner at a time, and an owner that is gone is replaced."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from adaptd.episodes import leases
from adaptd.episodes.leases import holding_lease, is_gone, name_owner, take_lease
from adaptd.errors import Interrupted, StoreConflict
from adaptd.machine import boot_id, process_started
from adaptd.project.layers import Project
from adaptd.project.settings import DatabaseSettings, Settings
from adaptd.records import DomainState, Lease
from adaptd.store import NewEpisode, Store


@pytest.fixture
def store(address):
    """An open, empty store."""
    with Store(address) as opened:
        yield opened


@pytest.fixture
def episode(store):
    """A queued episode."""
    with store.writing() as tx:
        domain = tx.domains.add("night", DomainState.QUEUED)
        return tx.episodes.add(NewEpisode(domain.id, "grcl", 0, {}, "0" * 64)).id


def lease_as(store, episode, owner, boot, expires):
    """Somebody's lease."""
    with store.writing() as tx:
        return tx.episodes.lease(episode, owner, boot, expires)


def test_a_second_owner_is_turned_away_while_the_first_renews(store, episode, monkeypatch):
    """Whoever renews its lease keeps the episode."""
    mine = take_lease(store, episode)

    def renew():
        nonlocal mine
        with store.writing() as tx:
            mine = tx.episodes.renew(episode, mine, mine.expires_monotonic + 1)

    with pytest.raises(StoreConflict, match="is being worked on by"):
        take_lease(store, episode, check_stop=renew)
    with store.writing() as tx:
        tx.episodes.renew(episode, mine, mine.expires_monotonic)


def test_a_killed_owner_is_replaced_at_once(store, episode):
    """Its process is gone, and its lease would have lasted for a minute."""
    program = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program]) as other:
        owner = f"{socket.gethostname()}:{other.pid}:{process_started(other.pid)}"
        old = lease_as(store, episode, owner, boot_id(), time.monotonic() + 60)
        assert not is_gone(old, time.monotonic())
        os.kill(other.pid, signal.SIGKILL)
    begun = time.monotonic()
    new = take_lease(store, episode)
    assert (new.fence, time.monotonic() - begun < 1) == (old.fence + 1, True)
    with pytest.raises(StoreConflict, match="was taken by another worker"), store.writing() as tx:
        tx.episodes.renew(episode, old, time.monotonic() + 60)


def test_a_later_process_with_the_same_id_is_another(store):
    """The number alone does not make it the owner."""
    host, pid, started = name_owner().rsplit(":", 2)
    for stamp, gone in ((started, False), (str(int(started) + 1), True)):
        assert is_gone(Lease(f"{host}:{pid}:{stamp}", 1, boot_id(), time.monotonic() + 60), time.monotonic()) is gone


def test_the_same_machine_after_a_restart(store, episode):
    """Nobody of another boot of this machine is at work."""
    lease_as(store, episode, name_owner(), "another-boot", time.monotonic() + 10_000)
    assert take_lease(store, episode).boot_id == boot_id()


def test_an_expired_lease_of_another_container_is_taken(store, episode):
    """Same kernel, other name: its process cannot be seen, and its time is over."""
    lease_as(store, episode, "container:1:7", boot_id(), time.monotonic() - 1)
    assert take_lease(store, episode).owner == name_owner()


def test_another_machine_that_renews_nothing_is_replaced_after_a_lease_s_time(store, episode, monkeypatch):
    """Its clock means nothing here: we watch for as long as a lease lasts."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.5)
    monkeypatch.setattr(leases, "WATCH_SECONDS", 0.1)
    lease_as(store, episode, "elsewhere:1:7", "its-boot", time.monotonic() + 10_000)
    begun = time.monotonic()
    assert take_lease(store, episode).owner == name_owner()
    assert time.monotonic() - begun >= 1.5


def test_a_lease_given_back_is_free_at_once(store, episode):
    """An orderly end leaves nothing to wait for."""
    first = take_lease(store, episode)
    with store.writing() as tx:
        tx.episodes.release(episode, first)
    assert take_lease(store, episode).fence == first.fence + 1


@pytest.fixture
def project(address, tmp_path):
    """A project with that store."""
    return Project(tmp_path, Settings(database=DatabaseSettings(url=address)), {})


def test_a_lease_is_kept_however_long_nothing_else_is_written(project, store, episode, monkeypatch):
    """Much longer than one lasts; afterwards it is free at once, also where the work was interrupted."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.1)
    with pytest.raises(Interrupted), holding_lease(project, store, episode) as lease:
        time.sleep(1.5)
        with store.reading() as tx:
            standing = tx.episodes.get(episode).lease
        assert (standing.fence, is_gone(standing, time.monotonic())) == (lease.fence, False)
        raise Interrupted(signal.SIGTERM)
    with store.reading() as tx:
        assert tx.episodes.get(episode).lease is None


def test_a_lease_that_was_taken_is_left_alone(project, store, episode, monkeypatch):
    """Whoever lost it neither renews nor gives back what another one has."""
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.05)
    with holding_lease(project, store, episode) as lease:
        with store.writing() as tx:
            theirs = tx.episodes.lease(episode, "container:1:7", boot_id(), 1.0, gone=tx.episodes.get(episode).lease)
        time.sleep(0.3)
    with store.reading() as tx:
        assert (tx.episodes.get(episode).lease, theirs.fence) == (theirs, lease.fence + 1)
