"""`adaptd serve` as a process: who may reach it, how much it takes on, how it leaves."""

import json
import re
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from adaptd.errors import ConfigError
from adaptd.observe.serving_metrics import ENDPOINTS
from adaptd.project.settings import ServingSettings
from adaptd.serving.server import check_grpc

from .conftest import NAME, SIZE, make_onnx, models, publish, random_images, wait_until

INFER = f"/v2/models/{NAME}/infer"
SLOW = make_onnx(1, depth=1500)
"""Takes some tenths of a second: the tests that use it need time to look while it runs."""


def question(count: int = 1) -> dict:
    """A JSON question."""
    shape = [count, 3, SIZE, SIZE]
    return {"inputs": [{"name": "images", "shape": shape, "datatype": "UINT8", "data": random_images(count).ravel().tolist()}]}


class TestAccess:
    def test_another_host_needs_a_token(self, adaptd, fresh):
        """Exit 5, and the ways out."""
        run = adaptd("--project", fresh, "serve", "--host", "0.0.0.0", "--port", "0")
        assert run.returncode == 5
        assert "--token" in run.stderr
        assert "--insecure" in run.stderr

    @pytest.mark.parametrize("words", [("--insecure",), ("--token", "secret")])
    def test_or_somebody_insists(self, fresh, start, words):
        """With either, it listens everywhere."""
        assert "listening on http://0.0.0.0:" in start(fresh, "--host", "0.0.0.0", *words).line

    def test_the_token_opens_everything_and_health_needs_none(self, fresh, start):
        """401 with no, half or another token; health for anyone."""
        publish(models(fresh), 1)
        server = start(fresh, token="secret")
        good = {"Authorization": "Bearer secret"}
        with server.client() as http:
            for path in ("/health", "/v2/health/live", "/v2/health/ready"):
                assert http.get(path).status_code == 200
            for bad in (
                {},
                *({"Authorization": text} for text in ("Bearer secre", "Bearer", "secret", "Basic secret", "Bearer ü")),
            ):
                encoded = {name: value.encode() for name, value in bad.items()}
                for path in ("/v2", "/metrics", f"/v2/models/{NAME}"):
                    answer = http.get(path, headers=encoded)
                    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert http.post(INFER, json=question(), headers=encoded).json()["error"]
            assert http.post(INFER, json=question(), headers=good).status_code == 200
            assert http.get("/metrics", headers=good).status_code == 200
        assert not any("secret" in text for text in (server.line, *server.errors))

    def test_the_token_is_never_shown(self, adaptd, fresh):
        """Not by `config show`, not in a complaint about it."""
        shown = adaptd("--project", fresh, "config", "show", "--json", env={"ADAPTD_SERVING__TOKEN": "secret"})
        assert shown.returncode == 0
        assert "secret" not in shown.stdout
        assert json.loads(shown.stdout)["settings"]["serving"]["token"] == "***"
        wrong = adaptd("--project", fresh, "config", "check", env={"ADAPTD_SERVING__TOKEN": "sec ret"})
        assert wrong.returncode == 5
        assert "sec ret" not in wrong.stderr

    def test_a_port_in_use(self, adaptd, fresh):
        """Exit 1, with the remedy."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            run = adaptd("--project", fresh, "serve", "--port", taken.getsockname()[1])
        assert run.returncode == 1
        assert "Address already in use; stop what listens there, or choose another --port" in run.stderr
        assert run.stdout == ""

    def test_grpc_without_its_packages(self, monkeypatch):
        """Which extra has them, or how to do without."""
        check_grpc(ServingSettings())
        monkeypatch.setitem(sys.modules, "grpc", None)
        check_grpc(ServingSettings())
        with pytest.raises(ConfigError, match=r"pip install 'adaptd\[grpc\]', or set it to 0"):
            check_grpc(ServingSettings(grpc_port=8001))

    def test_a_host_that_is_none(self, adaptd, fresh):
        """Likewise."""
        run = adaptd("--project", fresh, "serve", "--host", "no.such.host.invalid", "--port", "0", "--insecure")
        assert (run.returncode, "cannot listen on no.such.host.invalid" in run.stderr) == (1, True)


def test_needs_neither_database_nor_state(fresh, start):
    """The folder with versions is all: serving goes on when everything else is locked or gone."""
    publish(models(fresh), 3)
    assert not (fresh / "state").exists()
    server = start(fresh)
    assert "serving version 3 of shop" in server.line
    with server.client() as http:
        assert http.post(INFER, json=question()).json()["model_version"] == "3"
    assert not (fresh / "state").exists()


def test_too_many_waiting_requests_are_told_to_come_back(fresh, start):
    """503 with Retry-After for some, answers for the others, and nothing else."""
    publish(models(fresh), 1, SLOW)
    server = start(fresh, max_queue=2, max_batch_size=1)

    def ask(_: int):
        with server.client() as http:
            return http.post(INFER, json=question())

    with ThreadPoolExecutor(12) as clients:
        answers = list(clients.map(ask, range(12)))
    refused = [answer for answer in answers if answer.status_code == 503]
    assert {answer.status_code for answer in answers} == {200, 503}
    assert all(answer.headers["retry-after"] == "1" and "2 requests are waiting" in answer.json()["error"] for answer in refused)
    with server.client() as http:
        text = http.get("/metrics").text
        assert f'adaptd_requests_total{{code="503",endpoint="infer"}} {len(refused)}.0' in text
        assert "adaptd_queue_depth 0.0" in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_leaves_in_order(fresh, start, number):
    """What was begun is answered, nothing more is accepted, exit 0."""
    publish(models(fresh), 1, SLOW)
    server = start(fresh, max_batch_size=1)
    body = json.dumps(question()).encode()
    whole = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    clients = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(8)]
    for client in clients:
        client.sendall(whole)

    def all_begun(http) -> bool:
        """Waiting or answered, beside the one that runs."""
        text = http.get("/metrics").text
        found = re.findall(r'(?:adaptd_queue_depth|adaptd_requests_total{code="200",endpoint="infer"}) (\d+)', text)
        return sum(map(int, found)) >= len(clients) - 1

    with server.client() as http:
        wait_until(lambda: all_begun(http))
    server.process.send_signal(number)
    assert server.process.wait(60) == 0
    for client in clients:
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.close()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", server.port), 5)
    assert server.errors[1:] == []


def test_an_idle_connection_does_not_hold_the_server(fresh, start):
    """A client that is connected and silent is no reason to stay."""
    server = start(fresh)
    with socket.create_connection(("127.0.0.1", server.port)), server.client() as http:
        assert http.get("/v2/health/live").status_code == 200
        begin = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begin < 30


def test_metrics(fresh, start):
    """Every series is there from the start, at zero, and counts."""
    publish(models(fresh), 1)
    with start(fresh).client() as http:
        text = http.get("/metrics").text
        for endpoint in ENDPOINTS:
            assert f'adaptd_requests_total{{code="200",endpoint="{endpoint}"}} 0.0' in text
            assert f'adaptd_request_duration_seconds_count{{endpoint="{endpoint}"}} 0.0' in text
        for line in ("adaptd_batch_size_count 0.0", "adaptd_queue_depth 0.0", "adaptd_model_refused_total 0.0"):
            assert line in text
        assert 'adaptd_model_info{model="shop",version="1"} 1.0' in text
        assert "adaptd_model_swaps_total 1.0" in text
        assert http.post(INFER, json=question(5)).status_code == 200
        assert http.get("/nowhere").status_code == 404
        text = http.get("/metrics").text
        assert 'adaptd_requests_total{code="200",endpoint="infer"} 1.0' in text
        assert 'adaptd_requests_total{code="404",endpoint="other"} 1.0' in text
        assert "adaptd_batch_size_sum 5.0" in text
