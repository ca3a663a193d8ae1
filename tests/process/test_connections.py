"""Crowds at the daemon's port: the intake goes on, the log stays short, and who asks is answered."""

import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from adaptd.errors import StoreBusy
from adaptd.store import Store
from adaptd.store.engine import READER_SECONDS
from tests.observe.history import fill_history

from .conftest import MANUAL, Daemon

DESCRIPTORS = 256


@contextlib.contextmanager
def few_descriptors() -> Iterator[None]:
    """What is started here may open few files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def silent(address: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections over which nothing is said."""
    host, port = address.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((host, int(port)), 30)) for _ in range(count)]


def descriptors(daemon: Daemon) -> int:
    """How many files it has open."""
    return len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))


@pytest.mark.parametrize("count", [400, 1000])
def test_silent_connections_do_not_stop_the_intake(empty_shop, start, drop, pictures, count):
    """With four times as many as there are descriptors: a drop is imported, pages answer, one line in the log, exit in time."""
    with few_descriptors():
        daemon = start(empty_shop, env=MANUAL)
    address = daemon.hear("watching")["address"]
    before = descriptors(daemon)
    with silent(address, count):
        drop(pictures(0), empty_shop.root / "inbox" / "camera")
        for _ in range(5):
            begin = time.monotonic()
            assert fetch(address, "/health")[0] == 200
            assert time.monotonic() - begin < 5
        daemon.hear("camera: 39 files came")
        assert descriptors(daemon) < DESCRIPTORS * 3 // 4
        assert len(daemon.lines("more than")) == 1
    assert fetch(address, "/versions")[0] == 200
    assert daemon.log.stat().st_size < 20_000
    assert descriptors(daemon) < before + 20
    begin = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begin < 10


def fetch(address: str, path: str, seconds: float = 60) -> tuple[int, str | None]:
    """Status and Retry-After of a page, over a connection of its own."""
    with contextlib.closing(HTTPConnection(address.removeprefix("http://"), timeout=seconds)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers["retry-after"]


def test_reading_does_not_end_the_daemon(empty_shop, start):
    """Eighty readers of a large project at once: the daemon lives, and all are answered."""
    address = empty_shop.state / "adaptd.db"
    with Store(address) as store:
        fill_history(store, address, domains=200, versions=300, images=0)
    daemon = start(empty_shop, env=MANUAL)
    address = daemon.hear("watching")["address"]
    paths = ["/matrix.csv", "/metrics", "/", "/versions"] * 20
    with ThreadPoolExecutor(80) as pool:
        answers = list(pool.map(lambda path: fetch(address, path), paths))
    assert all(status == 200 or (status == 503 and after) for status, after in answers)
    assert sum(status == 200 for status, _ in answers) > len(answers) // 2
    assert fetch(address, "/health")[0] == 200
    assert daemon.lines("failed") == []
    assert daemon.stop() == 0


@pytest.mark.long
def test_readers_who_wait_in_vain_are_told_when_to_come_back(empty_shop, start):
    """Eighty ask at once for what takes seconds: each gets it or is sent away in time, nothing fails, and the daemon lives."""
    address = empty_shop.state / "adaptd.db"
    with Store(address) as store:
        fill_history(store, address, domains=300, versions=600, images=0)
    daemon = start(empty_shop, env=MANUAL)
    address = daemon.hear("watching")["address"]
    with ThreadPoolExecutor(80) as pool:
        answers = list(pool.map(lambda _: fetch(address, "/matrix.csv", 300), range(80)))
    assert {status for status, _ in answers} <= {200, 503}
    assert all(after for status, after in answers if status == 503)
    assert daemon.lines("failed") == []
    assert daemon.stop() == 0


def test_too_many_readers_are_an_error_of_the_store(empty_shop):
    """Who finds every connection in use hears so soon, as of any other trouble with the database."""
    with Store(empty_shop.state / "adaptd.db") as store, contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(store.reading())
        begin = time.monotonic()
        with pytest.raises(StoreBusy, match="every connection is in use"), store.reading():
            pass
        assert time.monotonic() - begin < READER_SECONDS + 2
