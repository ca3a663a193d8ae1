"""What one request may cost the others: nothing that a client sends keeps another one waiting for long."""

import asyncio
import contextlib
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from adaptd.errors import RequestRefused
from adaptd.serving.http import Budget, Held
from adaptd.serving.long_lists import MARK, cut_numbers, parse_numbers
from adaptd.serving.turns import Share, Turns

from .conftest import NAME, SIZE, expected, models, publish, random_images

INFER = f"/v2/models/{NAME}/infer"
SIDE = 7000


@pytest.fixture(scope="module")
def server(shop, start):
    """One version, the limits as they are."""
    publish(models(shop), 1)
    return start(shop)


@pytest.fixture(scope="module")
def huge() -> bytes:
    """A PNG of as many pixels as one image may have."""
    return red(SIDE)


def red(side: int) -> bytes:
    """A PNG with a line of so many pixels, and as many lines."""
    target = BytesIO()
    Image.new("RGB", (side, side), "red").save(target, "PNG", compress_level=1)
    return target.getvalue()


def small() -> bytes:
    """A small PNG."""
    target = BytesIO()
    Image.fromarray(random_images(1)[0].transpose(1, 2, 0)).save(target, "PNG")
    return target.getvalue()


def form(*files: bytes) -> tuple[bytes, dict[str, str]]:
    """A body with its header."""
    parts = [b'--b\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n' + data + b"\r\n" for data in files]
    return b"".join([*parts, b"--b--\r\n"]), {"Content-Type": "multipart/form-data; boundary=b"}


def post(server, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, dict, str | None]:
    """Status, document and Retry-After of an answer, over a connection of its own."""
    with contextlib.closing(HTTPConnection("127.0.0.1", server.port, timeout=120)) as connection:
        connection.request("POST", path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers["retry-after"]


def slowest(server, seconds: float, body: bytes | None = None) -> float:
    """The longest that another client waits for its health, or for a prediction, within this time."""
    worst, end = 0.0, time.monotonic() + seconds
    with contextlib.closing(HTTPConnection("127.0.0.1", server.port, timeout=120)) as connection:
        while time.monotonic() < end:
            begin = time.monotonic()
            connection.request("GET" if body is None else "POST", "/health" if body is None else "/predict", body)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            worst = max(worst, time.monotonic() - begin)
            time.sleep(0.02)
    return worst


@contextlib.contextmanager
def meanwhile(*calls) -> Iterator[list]:
    """Calls in threads; their results at the end."""
    results: list = []
    threads = [threading.Thread(target=lambda call=call: results.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    yield results
    for thread in threads:
        thread.join()


def tensor(data: str, count: int = 1, extra: str = "") -> bytes:
    """A question in JSON, as text."""
    head = f'"name": "images", "shape": [{count}, 3, {SIZE}, {SIZE}], "datatype": "UINT8"'
    return f'{{"inputs": [{{{head}, "data": {data}{extra}}}], "id": "7"}}'.encode()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ("[" + "0," * 29_000_000 + "0]", 400),
        ("[" * 1_000_000 + "0" + "," * 57_000_000, 413),
        ("[" + "0.5," * 14_000_000 + "0]", 413),
    ],
    ids=["integers", "commas", "fractions"],
)
def test_much_json_keeps_nobody_waiting(server, data, status):
    """58 MB of it: refused, and others get their health within a second all the while."""
    body, usual = tensor(data), slowest(server, 0.5)
    with meanwhile(lambda: post(server, INFER, body)) as results:
        worst = slowest(server, 2)
    assert results[0][0] == status, results[0]
    assert worst < 1 + 5 * usual, "on a machine that has other things to do everything takes longer"


@pytest.mark.parametrize(
    ("images", "status"),
    [('"",' * 19_000_000 + '""', 413), ("[]," * 19_000_000 + "[]", 413), (f'"{"QUJD" * 14_500_000}"', 400)],
    ids=["strings", "lists", "garbage"],
)
def test_much_base64_keeps_nobody_waiting(server, images, status):
    """58 MB of it, or of what is none: refused, and others get their health all the while."""
    body, usual = f'{{"images": [{images}]}}'.encode(), slowest(server, 0.3)
    with meanwhile(lambda: post(server, "/predict", body, {"Content-Type": "application/json"})) as results:
        worst = slowest(server, 1)
    assert results[0][0] == status, results[0]
    assert worst < 1 + 5 * usual


def test_large_json_is_read_as_small(server):
    """Flat or nested, padded beyond what is read at once: the same answers as of the runtime."""
    images = random_images(64)
    pad = " " * 2_000_000
    for data in (images.ravel().tolist(), images.tolist()):
        text = json.dumps(data)
        for body in (
            tensor(text, 64),
            tensor(text.replace(",", f",{pad}", 1), 64),
            tensor(text, 64, f', "parameters": {{}}{pad}'[:500_000]),
        ):
            status, document, _ = post(server, INFER, body)
            assert status == 200, document
            assert document["id"] == "7"
            np.testing.assert_allclose(document["outputs"][0]["data"], expected(1, images)[0].ravel(), rtol=1e-6)


LISTS = st.recursive(st.integers(0, 300), lambda inner: st.lists(inner, max_size=4), max_leaves=16)


@given(LISTS, st.sampled_from([(2, 3), (1, 2, 2), (4,), (1, 1)]), st.sampled_from([(",", ":"), (" , ", " : ")]))
def test_numbers_are_those_of_the_whole_text(data, shape, separators):
    """Cut out of its text, a list is what the parser makes of it, or is refused."""
    text = json.dumps({"a": [1], "data": [data], "b": {"data": 7}}, separators=separators).encode()
    rest, numbers = cut_numbers(text)
    assert json.loads(rest)["data"] == MARK
    assert json.loads(numbers) == [data]
    whole = np.array([data] if isinstance(data, int) else data, dtype=object)
    flat = whole.ravel().tolist() if whole.shape in {shape, (int(np.prod(shape)),)} else None
    is_good = flat is not None and all(type(value) is int and value < 256 for value in flat)
    inner = numbers if isinstance(data, int) else json.dumps(data).encode()
    if is_good:
        assert parse_numbers(inner, shape).ravel().tolist() == flat
    else:
        with pytest.raises(ValueError):  # noqa: PT011 (any will do)
            parse_numbers(inner, shape)


@pytest.mark.parametrize("text", ["[1 2,3]", "[1,,3]", "[1][2,3", "1,2,3", "[1,2,03]", "[,,]", "[1,2,3]]", "[[1],[2,3]]"])
def test_what_is_no_list_is_no_list(text):
    """Digits, commas and brackets alone do not make one."""
    with pytest.raises(ValueError):  # noqa: PT011
        parse_numbers(text.encode(), (3,))


def test_huge_images_keep_nobody_waiting(server, huge):
    """Twenty-four in a form are refused at once; those of two forms leave a thread to another client's."""
    begin = time.monotonic()
    status, document, _ = post(server, "/predict", *form(*[huge] * 24))
    assert (status, "pixels together" in document["error"]) == (413, True)
    assert time.monotonic() - begin < 5
    body, usual = form(*[huge] * 2), slowest(server, 0.5, small())
    with meanwhile(*[lambda: post(server, "/predict", *body)] * 2) as results:
        time.sleep(0.2)
        worst = slowest(server, 2, small())
    assert [result[0] for result in results] == [200, 200]
    assert worst < 1 + 5 * usual


def test_huge_images_alone_keep_nobody_waiting(server):
    """Ten requests of one each, of 6 KB: what they are is seen when they are opened, and a thread is left to another client."""
    target = BytesIO()
    Image.new("1", (SIDE, SIDE)).save(target, "PNG")
    usual = slowest(server, 0.5, small())
    with meanwhile(*[lambda: post(server, "/predict", target.getvalue())] * 10) as results:
        time.sleep(0.3)
        worst = slowest(server, 2, small())
    assert [result[0] for result in results] == [200] * 10
    assert worst < 1 + 5 * usual


def test_decoding_has_a_limit_of_time(fresh, start):
    """A request whose images take too long is refused between two of them."""
    publish(models(fresh), 1)
    server, large = start(fresh, max_decode_seconds=0.05), red(SIDE // 2)
    status, document, _ = post(server, "/predict", *form(*[large] * 3))
    assert (status, "more than 0.05 seconds" in document["error"]) == (413, True)


def test_what_waits_is_counted(fresh, start, huge):
    """Bodies count until they are answered: beyond the budget a client is told to come back, and later it is served."""
    publish(models(fresh), 1)
    server = start(fresh, max_held_bytes=2 * len(huge))
    body = form(huge, huge)
    with meanwhile(lambda: post(server, "/predict", *body)):
        time.sleep(0.5)
        status, document, after = post(server, "/predict", b"x" * len(huge))
        assert (status, after) == (503, "1"), document
        assert post(server, "/predict", small())[0] in {200, 503}
    assert post(server, "/predict", small())[0] == 200


def test_a_lone_request_always_fits():
    """A budget below one request's size does not lock everybody out; two are too many."""
    budget = Budget(10)
    one, other = Held(budget), Held(budget)
    one.add(8)
    one.add(80)
    with pytest.raises(RequestRefused):
        other.add(1)
    one.close()
    other.add(1)


def test_large_requests_leave_room_for_small_ones():
    """However many of them there are, a small one is taken."""
    piece, budget, begun = 1 << 16, Budget(16 << 20), []
    with pytest.raises(RequestRefused):
        for number in range(1000):
            begun.append(Held(budget))
            begun[number].expected = 10 << 20
            begun[number].add(piece)
    small = Held(budget)
    small.expected = 1 << 20
    for _ in range(16):
        small.add(piece)


def test_turns_are_fair():
    """A small request overtakes the pieces of large ones that wait; a large one is not overtaken for ever."""

    async def play() -> list[str]:
        turns, order = Turns(1), []
        gate = threading.Event()

        async def ask(name: str, cost: float, pieces: int) -> None:
            share = Share()
            for _ in range(pieces):
                await turns.run(share, cost, lambda: order.append(name))

        blocker = asyncio.create_task(turns.run(Share(), 1, gate.wait))
        await asyncio.sleep(0)
        large = [asyncio.create_task(ask(name, 100, 3)) for name in "AB"]
        await asyncio.sleep(0)
        tiny = [asyncio.create_task(ask("t", 1, 1)) for _ in range(3)]
        steady = asyncio.create_task(ask("s", 10, 40))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(blocker, *large, *tiny, steady)
        turns.close()
        return order

    order = asyncio.run(play())
    assert order[:3] == ["t", "t", "t"]
    assert order.index("A") < 20, "one after the other has its turn"
    assert order[-1] == "s"


def test_silent_connections_keep_nobody_waiting(fresh, start):
    """Four times as many as there are descriptors: others are answered, and the log has one line about it."""
    publish(models(fresh), 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        server = start(fresh)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 30))
        assert slowest(server, 1, small()) < 5
    assert sum(map(len, server.errors)) < 2000
    assert server.stop() == 0
