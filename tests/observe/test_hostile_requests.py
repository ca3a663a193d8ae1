"""Whatever a client asks the pages for, it gets a page or a 4xx, the log stays short, and the next reader gets its answer."""

import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from starlette.responses import Response

from adaptd.errors import StoreBusy
from adaptd.observe.dashboard.app import Dashboard
from adaptd.store import Store

from .pages import make_project, serve_pages

TOKEN = "correct-horse"
HUGE = ("9" * 19, "9" * 30, "9" * 400, str(2**63), str(2**64), "0" * 5000)
ODD = (
    "%00",
    "%ff%fe",
    "%c3%28",
    "%ed%a0%80",
    "..%2f..",
    "%0d%0aSet-Cookie:x",
    "%1b]0;x%07",
    "%e2%80%ae",
    "a" * 300,
    "%f0%9f%92%a9" * 90,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project."""
    return make_project(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def store(root: Path) -> Iterator[Store]:
    """Its store."""
    with Store(root / "state" / "adaptd.db") as store:
        yield store


@pytest.fixture(scope="module")
def address(root: Path, store: Store) -> Iterator[str]:
    """Where its pages are."""
    with serve_pages(root, store, token=TOKEN) as address:
        yield address


@pytest.fixture
def pages(address: str, caplog: pytest.LogCaptureFixture) -> Iterator[httpx.Client]:
    """A client; after the test the pages must still be there, and nothing was worth a traceback."""
    caplog.set_level(logging.INFO)
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client
        assert client.get("/versions/1").status_code == 200
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


def ask(address: str, request: bytes) -> bytes:
    """Send bytes as they are; everything that comes until the server closes."""
    host, port = address.removeprefix("http://").split(":")
    with contextlib.closing(socket.create_connection((host, int(port)), 30)) as connection:
        connection.sendall(request)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                received += data
        return received


def get_status(address: str, path: str, method: str = "GET", extra: str = "") -> int:
    """The status of an answer to a path that no client would send."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{extra}\r\n"
    return int(ask(address, head.encode("latin-1")).split(None, 2)[1])


@pytest.mark.parametrize("number", HUGE)
def test_numbers_beyond_the_database(pages, address, number):
    """A version or image that no database could hold is not there."""
    for path in (f"/versions/{number}", f"/domains/night/images/{number}.png"):
        assert pages.get(path).status_code == 404
    assert pages.post(f"/versions/{number}/promote", data={"token": TOKEN}).status_code == 404
    pages_of = ("/versions?page={}", "/domains?page={}", "/domains/night?page={}")
    for path in ("/matrix?row={}", "/matrix?column={}", *pages_of, "/events?before={}"):
        assert pages.get(path.format(number)).status_code == 200


@pytest.mark.parametrize("text", ODD)
def test_odd_names(pages, address, text):
    """No name is too odd to be refused."""
    for path in (f"/domains/{text}", f"/domains/{text}/images/1.png", f"/versions/{text}", f"/static/{text}", f"/{text}"):
        assert get_status(address, path) in {400, 404}, path
    for path in (f"/domains?sort={text}&state={text}&name={text}", f"/domains/night?class={text}&sure={text}"):
        assert get_status(address, path) in {200, 400}, path
    for path in (f"/matrix?row={text}", f"/events?before={text}", f"/?{text}={text}", f"/events?{'&'.join([text] * 20)}"):
        assert get_status(address, path) in {200, 400}, path


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ("token={}&why=%00", 400),
        ("token={}&why=a%00b", 400),
        ("token={}&why=\0", 400),
        ("&".join(f"a{n}=1" for n in range(500)), 413),
        ("&".join("a" for n in range(2000)), 413),
        ("&" * 4000, 413),
        ("why=" + "x" * 5000, 413),
        ("token=%ff%fe", 403),
        ("token=%ed%a0%80", 403),
        ("token={}x", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("action", ["promote", "restore", "back"])
def test_odd_forms(pages, form, status, action):
    """Too many fields, too long, characters that are none."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = pages.post(f"/versions/1/{action}", content=form.format(TOKEN).encode(), headers=headers)
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text


def test_wrong_ways_to_ask(pages, address):
    """Methods, types and lengths that fit nothing."""
    for method in ("POST", "PUT", "DELETE", "TRACE", "OPTIONS"):
        assert get_status(address, "/versions/1", method) == 405
    assert pages.post("/versions/1/promote", json={"token": TOKEN}).status_code == 415
    assert pages.post("/versions/1/promote", files={"token": TOKEN.encode()}).status_code == 415
    length = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 99999999\r\n"
    assert get_status(address, "/versions/1/promote", "POST", length) == 413
    assert get_status(address, "/", extra="Host: x\r\n" * 3) in {200, 400, 421}
    assert get_status(address, "/", extra="Authorization: Basic \xff\xfe\r\n") == 200
    assert get_status(address, "/", extra=f"X: {'x' * 1_000_000}\r\n") in {400, 431}
    assert ask(address, b"\x16\x03\x01\x02\x00\x01\x00").startswith(b"HTTP/1.1 400")


def test_random_addresses(pages, address):
    """Pieces of addresses, numbers and noise in any order: a page or a refusal."""
    chance = random.Random(14)
    pieces = [
        "domains",
        "versions",
        "events",
        "matrix.csv",
        "static",
        "images",
        "night",
        "1",
        "-1",
        "1.png",
        "..",
        "",
        *HUGE[:3],
        *ODD,
    ]
    for _ in range(300):
        path = "/" + "/".join(chance.choices(pieces, k=chance.randint(1, 5)))
        noise = "".join(map(chr, chance.choices(range(33, 127), k=chance.randint(0, 8))))
        query = chance.choice(["", f"?before={quote(noise)}", "?row=" + chance.choice(ODD), f"?{quote(noise)}"])
        status = get_status(address, path + query, chance.choice(["GET", "GET", "HEAD", "POST"]))
        assert status in {200, 307, 400, 403, 404, 405, 413, 415}, (path + query, status)


def test_nobody_is_left_without_an_answer(pages, store, monkeypatch, caplog):
    """Without a reader in time a page says when to come back; whatever else breaks is one line in the log."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "reading", lambda: (_ for _ in ()).throw(StoreBusy("every connection is in use")))
        for path in ("/", "/matrix.csv", "/versions/1", "/domains/night/images/1.png"):
            answer = pages.get(path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        patch.setattr(store, "reading", lambda: 1 / 0)
        for path in ("/", "/matrix.csv", "/domains/night/images/1.png"):
            answer = pages.get(path)
            assert (answer.status_code, list(answer.json())) == (500, ["error"])
    failures = [record for record in caplog.records if record.exc_info]
    assert [record.getMessage() for record in failures] == ["a page failed"] * 3
    caplog.clear()


@pytest.mark.parametrize(
    ("settings", "headers", "tells"),
    [
        ({"host": "192.0.2.1", "token": TOKEN}, {}, False),
        ({"host": "192.0.2.1", "token": TOKEN}, {"authorization": "Bearer wrong"}, False),
        ({"host": "192.0.2.1", "token": TOKEN}, {"authorization": f"Bearer {TOKEN}"}, True),
        ({"host": "192.0.2.1"}, {}, False),
        ({"host": "192.0.2.1", "insecure": True}, {}, True),
        ({}, {}, True),
        ({}, {"host": "evil.example"}, False),
    ],
)
def test_strangers_hear_the_state_alone(root, store, settings, headers, tells):
    """Beyond loopback health tells paths and names to those who have the token."""
    with serve_pages(root, store, **settings) as address:
        answer = httpx.get(f"{address}/health", headers=headers)
    assert answer.status_code == 200
    assert (answer.json() == {"state": "idle"}) is not tells


def test_health_waits_for_no_page(root, store, monkeypatch):
    """With every thread busy with pages, whoever asks how the daemon is hears it at once."""
    free = threading.Event()
    monkeypatch.setattr(Dashboard, "_csv", lambda *_: free.wait(30) and Response())
    with serve_pages(root, store) as address, ThreadPoolExecutor(60) as pool:
        answers = [pool.submit(httpx.get, f"{address}/matrix.csv", timeout=60) for _ in range(60)]
        try:
            time.sleep(1)
            assert httpx.get(f"{address}/health", timeout=10).status_code == 200
        finally:
            free.set()
        assert {answer.result().status_code for answer in answers} == {200}
