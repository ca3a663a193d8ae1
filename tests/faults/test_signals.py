"""Row 11: SIGTERM of the daemon and SIGKILL of its worker, again and again, while `adaptd serve` answers."""

import os
import signal
import time

import numpy as np
import pytest

from tests.process.conftest import wait_until

pytestmark = pytest.mark.long

LONG = bool(os.environ.get("ADAPTD_FAULTS"))
ROUNDS, CALM = (int(os.environ.get("ADAPTD_ROUNDS", "100")), 1000) if LONG else (3, 50)
ENV = {"ADAPTD_TRAINING__EPOCHS": str(100 * ROUNDS), "ADAPTD_TRAINING__CHECKPOINT_SECONDS": "0.1"}


def test_stopped_and_killed_while_serving(shop, start, drop, pictures, serve, figures):
    """Every stop within 10 s, every worker replaced, serving without an error; long runs look at its p99 too."""
    client = serve(shop)
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, env=ENV)
    daemon.training()
    wait_until(lambda: len(client.seconds) >= CALM, "serving beside training")
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
    assert not LONG or busy_p99 <= 2 * calm_p99
