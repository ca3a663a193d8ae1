"""Several domains at once: trained in the order in which they came, and everybody tells the same story."""

import os
import signal
import urllib.request

import pytest

from .conftest import wait_until

pytestmark = pytest.mark.long

NAMES = ("first", "second", "third")


def read_metrics(address: str) -> dict[str, float]:
    """What Prometheus would read."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_three_domains_in_order(shop, start, drop, pictures):
    """Two come while the first trains; status, metrics, log and R agree at the time and in the end."""
    inbox = shop.root / "inbox"
    drop(pictures(0), inbox / NAMES[0])
    daemon = start(shop, env={"ADAPTD_TRAINING__EPOCHS": "60"})
    worker = daemon.hold()
    # One after the other, as a second decides about the order.
    drop(pictures(1), inbox / NAMES[1])
    daemon.hear("second: 39 files came")
    drop(pictures(2), inbox / NAMES[2])
    address = shop.status()["daemon"]["address"]
    wait_until(lambda: read_metrics(address)['adaptd_domains{state="queued"}'] == 2, "queueing")
    told = shop.status()
    assert (told["daemon"]["state"], told["episode"]["domain"]) == ("training", "first")
    assert read_metrics(address)['adaptd_daemon_state{state="training"}'] == 1
    os.kill(worker, signal.SIGCONT)
    daemon.until(**dict.fromkeys(NAMES, "done"))
    told = wait_until(lambda: (now := shop.status())["daemon"]["state"] == "idle" and now, "being idle")
    metrics = read_metrics(address)
    assert daemon.stop() == 0
    assert [line["domain"] for line in daemon.lines("episode begins")] == list(NAMES)
    assert [line["message"] for line in daemon.lines("gave version")] == [f"episode {n} gave version {n + 1}" for n in (1, 2, 3)]
    matrix = told["matrix"]
    assert (matrix["domains"], matrix["episodes"]) == (["source", *NAMES], [0, 1, 2, 3])
    lower = [value for t, row in enumerate(matrix["R"]) for value in row[: t + 1]]
    assert None not in lower, "R has every entry"
    assert metrics['adaptd_episodes_total{outcome="done"}'] == 4
    assert metrics['adaptd_domains{state="done"}'] == 4
    assert metrics['adaptd_daemon_state{state="idle"}'] == 1
    for name, value in zip(matrix["domains"], matrix["R"][-1], strict=True):
        assert metrics[f'adaptd_accuracy_ratio{{domain="{name}",kind="measured"}}'] == value
    assert metrics["adaptd_images_ingested"] == 60 + 3 * 39
