"""The server of all HTTP, with an application of its own: clients that ask and do not read, and clients that never finish."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection

import pytest

from adaptd import connections

LIMIT = 8
LARGE = b"x" * 20_000_000
ASK = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"


async def answer(scope, receive, send):
    """Much, or little after the whole request came."""
    body = LARGE if scope["path"] == "/large" else b"fine"
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], socket.socket]]:
    """Makes connections to a server that is soon out of patience, and has few places."""
    monkeypatch.setattr(connections, "KEEP_ALIVE_SECONDS", 2)
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1.0)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server = connections.make_server(answer, LIMIT, timeout_graceful_shutdown=1)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        stack.callback(thread.join)
        stack.callback(setattr, server, "should_exit", True)
        yield lambda: stack.enter_context(socket.create_connection(listener.getsockname(), 20))


def ask(client: socket.socket) -> bytes:
    """The first line of an answer."""
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        return client.recv(65536).partition(b"\r\n")[0]
    return b""


def is_ended(client: socket.socket) -> bool:
    """Whether the server gave the connection up: what was sent may still be read, the rest never comes."""
    received = 0
    try:
        while data := client.recv(1 << 20):
            received += len(data)
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return received < len(LARGE)


@pytest.mark.parametrize("then", [b"", b"G", ASK], ids=["silent", "begins another", "asks again"])
def test_who_does_not_read_is_let_go(connect, then):
    """Whatever it says meanwhile: neither its answer nor its place is kept."""
    clients = [connect() for _ in range(LIMIT // 2)]
    for words in (ASK, then):
        for client in clients:
            client.sendall(words)
        time.sleep(0.5)
    time.sleep(2.5)
    assert all(is_ended(client) for client in clients)


@pytest.mark.parametrize(
    "words",
    [ASK, ASK * 2, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"],
    ids=["unread", "two unread", "half a body"],
)
def test_slow_clients_take_nobodys_place(connect, words):
    """With every place taken by those who make the server wait, whoever asks is answered."""
    clients = [connect() for _ in range(LIMIT)]
    for client in clients:
        client.sendall(words)
    time.sleep(0.5)
    assert ask(connect()) == b"HTTP/1.1 200 OK"


def test_who_reads_at_last_gets_everything(connect):
    """One large answer after the other, for longer than anybody may take for one."""
    with contextlib.closing(HTTPConnection("unused")) as client:
        client.sock = connect()
        for _ in range(6):
            client.request("GET", "/large")
            time.sleep(0.5)
            assert client.getresponse().read() == LARGE
