"""Whatever a client sends, it gets an `{"error"}` with a 4xx status, and the next client gets its answer."""

import gzip
import json
import re
import socket
import zlib
from base64 import b64encode
from contextlib import closing
from io import BytesIO

import pytest
from PIL import Image

from .conftest import NAME, SIZE, make_onnx, models, publish, random_images, wait_until

INFER = f"/v2/models/{NAME}/infer"
IMAGE = 3 * SIZE * SIZE


@pytest.fixture(scope="module")
def server(shop, start):
    """Small limits, one version."""
    publish(models(shop), 1)
    return start(shop, max_request_bytes=100_000, request_seconds=1.0)


@pytest.fixture
def http(server):
    """A client; after the test the server must still answer."""
    with server.client() as client:
        yield client
        assert client.post("/predict", content=picture()).status_code == 200
        assert server.process.poll() is None


def picture() -> bytes:
    """A small PNG."""
    target = BytesIO()
    Image.fromarray(random_images(1)[0].transpose(1, 2, 0)).save(target, "PNG")
    return target.getvalue()


def question(**changes: object) -> dict:
    """A good JSON question, with changes."""
    tensor = {"name": "images", "shape": [1, 3, SIZE, SIZE], "datatype": "UINT8", "data": [0] * IMAGE}
    return {"inputs": [{**tensor, **changes}]}


def raw(server, *pieces: bytes, seconds: float = 30) -> bytes:
    """Send bytes as they are; everything that comes until the server closes."""
    with closing(socket.create_connection(("127.0.0.1", server.port), seconds)) as connection:
        for piece in pieces:
            connection.sendall(piece)
        received = b""
        while data := connection.recv(65536):
            received += data
        return received


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"7",
        b"[" * 50_000,
        b'{"inputs": 3}',
        b'{"inputs": []}',
        b'{"inputs": [null]}',
        b'{"inputs": ["images"]}',
        b'{"inputs": [{"name": "images"}]}',
        b'{"inputs": {"name": "images"}}',
    ],
)
def test_bad_json(http, body):
    """Not JSON, or not a request."""
    answer = http.post(INFER, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [-1, 3, SIZE, SIZE]},
        {"shape": [2**63, 3, SIZE, SIZE]},
        {"shape": [10**400, 3, SIZE, SIZE]},
        {"shape": [1.0, 3, SIZE, SIZE]},
        {"shape": [True, 3, SIZE, SIZE]},
        {"shape": ["1", 3, SIZE, SIZE]},
        {"shape": [0, 3, SIZE, SIZE]},
        {"shape": []},
        {"shape": None},
        {"shape": "1,3,8,8"},
        {"shape": [2, 3, SIZE, SIZE]},
        {"name": ["images"]},
        {"datatype": "INT8"},
        {"datatype": {}},
        {"data": None},
        {"data": {}},
        {"data": "0" * IMAGE},
        {"data": [256] * IMAGE},
        {"data": [-1] * IMAGE},
        {"data": [0.5] * IMAGE},
        {"data": [10**30] * IMAGE},
        {"data": ["0"] * IMAGE},
        {"data": [True] * IMAGE},
        {"data": [[0], [0, 0]]},
        {"data": []},
        {"parameters": 5},
        {"parameters": {"binary_data_size": IMAGE}},
        {"parameters": {"binary_data_size": -1}},
        {"parameters": {"binary_data_size": "192"}},
        {"parameters": {"shared_memory_region": "x"}, "data": None},
    ],
)
def test_bad_tensors(http, changes):
    """Negative and huge shapes, wrong types, numbers out of range, sizes that lie."""
    answer = http.post(INFER, json=question(**changes))
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "extra",
    [
        {"outputs": 5},
        {"outputs": ["logits"]},
        {"outputs": [{"name": "logits"}, {"name": "logits"}]},
        {"outputs": [{"name": "logits", "parameters": {"classification": -1}}]},
        {"outputs": [{"name": "logits", "parameters": {"classification": "x"}}]},
        {"parameters": [1]},
        {"id": 7},
        {"id": "x" * 5000},
    ],
)
def test_bad_wishes(http, extra):
    """Outputs, parameters and ids that are none."""
    answer = http.post(INFER, json=question() | extra)
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "99999", "9" * 30, "", "5", "²"])
def test_wrong_header_lengths(http, length):
    """Negative, none, beyond the body, inside the JSON."""
    header = json.dumps({"inputs": [{**question()["inputs"][0], "data": None, "parameters": {"binary_data_size": IMAGE}}]})
    headers = {"Inference-Header-Content-Length": length.encode()}
    answer = http.post(INFER, content=header.encode() + bytes(IMAGE), headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/v2/models/../../../etc/passwd",
        f"/v2/models/{NAME}/versions/../1",
        f"/v2/models/{NAME}/versions/..%2f..%2f1/config",
        f"/v2/models/{NAME}/versions/1.tmp",
        f"/v2/models/{NAME}/versions/-1",
        f"/v2/models/{NAME}/versions/01",
        f"/v2/models/{NAME}/versions/%d9%a1",
        f"/v2/models/{NAME}/versions/{'9' * 400}",
        f"/v2/models/{NAME}/versions/999999",
        f"/v2/models/{NAME}/versions//config",
        "/v2/models/%2e%2e/config",
        "/v2/models//config",
        "/v2/models/%00/config",
        "//v2",
        "/page.html",
        "/site/page.css",
        "/v2/models",
    ],
)
def test_path_tricks(server, http, path):
    """Nothing a path says reaches the disk but a number, and nothing but errors comes back."""
    received = raw(server, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    status = int(received.split()[1])
    assert status in {400, 404}, received
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]


def test_oversize(server, http):
    """Announced or not, packed or not, too large is 413."""
    big = bytes(100_001)
    assert http.post(INFER, content=big).status_code == 413
    assert http.post(INFER, content=iter([big[:60_000], big[:60_000]])).status_code == 413
    for packed, how in ((gzip.compress(bytes(50_000_000)), "gzip"), (zlib.compress(bytes(50_000_000)), "deflate")):
        assert len(packed) < 100_000
        answer = http.post(INFER, content=packed, headers={"Content-Encoding": how})
        assert answer.status_code == 413
        assert "larger than 100000 bytes" in answer.json()["error"]
    announced = raw(
        server, b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 999999\r\n\r\n" % INFER.encode()
    )
    assert announced.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("body", "how", "status"),
    [
        (b"not gzip", "gzip", 400),
        (gzip.compress(b"{}", mtime=0)[:-3], "gzip", 400),
        (gzip.compress(b"{}", mtime=0) + b"x", "gzip", 400),
        (b"{}", "br", 415),
        (b"{}", "gzip, gzip", 415),
    ],
)
def test_bad_compression(http, body, how, status):
    """What cannot be unpacked is said so."""
    answer = http.post(INFER, content=body, headers={"Content-Encoding": how})
    assert (answer.status_code, bool(answer.json()["error"])) == (status, True)


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"],
)
def test_no_http(server, http, sent):
    """What is no HTTP is answered in JSON all the same, and closed."""
    received = raw(server, sent)
    assert received.startswith(b"HTTP/1.1 400")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]


def test_endless_headers(server, http):
    """Headers have a limit, in one line or in many."""
    with closing(socket.create_connection(("127.0.0.1", server.port), 30)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nx: ")
        received = b""
        try:
            for _ in range(1000):
                connection.sendall(b"a" * 1000)
            received = connection.recv(65536)
        except ConnectionError:
            return  # closed while more was on its way
    assert received.startswith(b"HTTP/1.1 431")


def test_a_slow_body(server, http):
    """A body that does not come is not waited for."""
    received = raw(server, b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n{" % INFER.encode())
    assert received.startswith(b"HTTP/1.1 408")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"] == "the request did not arrive within 1 seconds"


def test_a_client_that_leaves(server, http):
    """A connection cut in the middle of a body is counted, not answered."""
    with closing(socket.create_connection(("127.0.0.1", server.port), 30)) as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{" % INFER.encode())
    wait_until(lambda: 'adaptd_requests_total{code="499",endpoint="infer"}' in http.get("/metrics").text)


def test_clients_that_leave_while_they_wait(fresh, start):
    """Their requests are dropped from the queue, and those who stay are answered."""
    publish(models(fresh), 1, make_onnx(1, depth=1500))
    slow = start(fresh, max_batch_size=1)
    body = json.dumps(question()).encode()
    whole = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    clients = [socket.create_connection(("127.0.0.1", slow.port), 30) for _ in range(20)]
    for client in clients:
        client.sendall(whole)
    for client in clients:
        client.close()
    with slow.client() as http:
        assert http.post(INFER, json=question()).status_code == 200
        text = http.get("/metrics").text
    left = re.search(r'adaptd_requests_total{code="499",endpoint="infer"} (\d+)', text)
    assert left is not None
    assert int(left[1]) > 0


def test_pipelined_requests(server, http):
    """Two requests in one packet get two answers, in order."""
    ask = b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n"
    received = raw(server, ask % (b"/v2/health/live", b"") + ask % (b"/v2", b"Connection: close\r\n"))
    assert received.count(b"HTTP/1.1 200") == 2
    assert received.index(b'"live"') < received.index(b'"extensions"')


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "image/png"),
        (b"no picture", "image/png"),
        (b"<svg></svg>", ""),
        (b"--x\r\n\r\n\r\n--x--", "multipart/form-data; boundary=x"),
        (b"--x\r\n\r\nhello\r\n", "multipart/form-data; boundary=x"),
        (b"--x\r\nno blank line\r\n--x--", "multipart/form-data; boundary=x"),
        (b"", "multipart/form-data; boundary=x"),
        (b"hello", "multipart/form-data"),
        (b"hello", "multipart/mixed; boundary=x"),
        (b'{"images": []}', "application/json"),
        (b'{"images": {}}', "application/json"),
        (b'{"images": "#0"}', "application/json"),
        (b'{"images": ["#0", "#-1", "\\u0000"]}', "application/json"),
        (b'{"images": ["' + b"A" * 999 + b'\\"]}', "application/json"),
        (b"[" * 50_000, "application/json"),
        (b'["images"]', "application/json"),
    ],
)
def test_bad_uploads(http, body, kind):
    """What is no picture, and forms that are none."""
    answer = http.post("/predict", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize("count", [257, 280, 3_000])
def test_too_many_files(http, count):
    """The limit is named, whether it is passed by one or by far."""
    body = b"--x\r\n\r\na\r\n" * count + b"--x--"
    answer = http.post("/predict", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert (answer.status_code, "more than 256 images" in answer.json()["error"]) == (413, True)


def test_too_many_images_in_json(http):
    """The same limit as in a form."""
    answer = http.post("/predict", json={"images": ["QUJD"] * 257})
    assert (answer.status_code, "more than 256" in answer.json()["error"]) == (413, True)


def test_bombs_in_base64(http):
    """Pixels are counted over all images, as in a form."""
    target = BytesIO()
    Image.new("1", (9_000, 9_000)).save(target, "PNG")
    answer = http.post("/predict", json={"images": [b64encode(target.getvalue()).decode()] * 3})
    assert (answer.status_code, "pixels together" in answer.json()["error"]) == (413, True)


def test_a_picture_bomb(http):
    """A small file of very many pixels is refused before it is unpacked."""
    target = BytesIO()
    Image.new("1", (12_000, 12_000)).save(target, "PNG")
    assert len(target.getvalue()) < 100_000
    answer = http.post("/predict", content=target.getvalue())
    assert answer.status_code == 400
    assert "too-many-pixels" in answer.json()["error"]
