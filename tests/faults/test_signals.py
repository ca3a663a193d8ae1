"""Row 11: SIGTERM of the daemon and SIGKILL of its worker, again and again, while `adaptd serve` answers."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest

from tests.conftest import REPOSITORY
from tests.process.conftest import QUICK, SECONDS, wait_until

ROUNDS = 100 if os.environ.get("ADAPTD_FAULTS") else 3
ENV = {"ADAPTD_TRAINING__EPOCHS": str(100 * ROUNDS), "ADAPTD_TRAINING__CHECKPOINT_SECONDS": "0.1"}


class Client(threading.Thread):
    """Asks a server again and again; what went wrong, and how long each answer took."""

    def __init__(self, url: str, image: bytes) -> None:
        super().__init__(daemon=True)
        self._url, self._image = url, image
        self.seconds: list[float] = []
        self.errors: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Until it is told to stop."""
        with httpx.Client(timeout=SECONDS) as client:
            while not self.over.is_set():
                begun = time.monotonic()
                try:
                    answer = client.post(f"{self._url}/predict", files={"image": self._image})
                    if answer.status_code != 200:
                        self.errors.append(answer.text)
                except httpx.HTTPError as problem:
                    self.errors.append(repr(problem))
                self.seconds.append(time.monotonic() - begun)
                time.sleep(0.005)


@pytest.fixture
def client(shop, tmp_path, pictures):
    """A client of a real server of the project."""
    command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(shop.root), "serve", "--port", "0"]
    log = tmp_path / "serve.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=os.environ | {"PYTHONPATH": str(REPOSITORY)} | QUICK
        )
    found = wait_until(lambda: re.search(r"http://[\d.]+:\d+", log.read_text()), "serving")
    one = Client(found[0], min(pictures(0).glob("*.png")).read_bytes())
    one.start()
    yield one
    one.over.set()
    one.join()
    server.terminate()
    server.wait(SECONDS)


def test_stopped_and_killed_while_serving(shop, start, drop, pictures, client, figures):
    """Every stop within 10 s, every worker replaced, serving without an error."""
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, env=ENV)
    daemon.training()
    wait_until(lambda: len(client.seconds) >= 50, "serving beside training")
    calm = list(client.seconds)
    for number in range(ROUNDS):
        ((step,),) = shop.rows("SELECT max(step) FROM checkpoints")
        os.kill(daemon.training(step + 1), signal.SIGKILL)  # three deaths at one place would be poison
        daemon.hear("killed by SIGKILL", 1)
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < 10
        daemon = start(shop, env=ENV, log=f"log-{number}")
    assert shop.rows("SELECT state FROM domains WHERE name = 'camera'") != [("failed",)]
    assert client.errors == []
    busy = client.seconds[len(calm) :]
    calm_p99, busy_p99 = (float(np.percentile(values, 99)) for values in (calm, busy))
    figures(rounds=ROUNDS, answers=len(client.seconds), p99=busy_p99, undisturbed_p99=calm_p99)
