"""What a person and the system may tell the daemon: pause, resume, cancel, retry, signals, and how it answers systemd."""

import os
import signal
import socket
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from .conftest import LONG, MANUAL, is_pending, wait_until


def state(shop) -> str:
    """The daemon's."""
    return shop.status()["daemon"]["state"]


def test_pause_outlives_a_restart(shop, start, drop, pictures, reference):
    """A paused episode leaves a checkpoint and waits, also after a restart; resumed, it ends as if it had not paused."""
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, env=LONG)
    worker = daemon.hold(10)
    shop.does("pause", "camera")
    wait_until(lambda: is_pending(worker, signal.SIGTERM), "asking the worker to stop")
    os.kill(worker, signal.SIGCONT)
    daemon.hear("stopped by SIGTERM", outcome="stopped")
    (step,) = shop.rows("SELECT max(step) FROM checkpoints")[0]
    assert step >= 10
    shop.does("pause")
    wait_until(lambda: state(shop) == "paused", "the pause of everything")
    assert daemon.stop() == 0
    daemon = start(shop, env=LONG)
    daemon.hear("watching", 2)
    shop.does("resume")
    wait_until(lambda: state(shop) == "idle", "only the domain being paused")
    assert any("camera is paused" in warning for warning in shop.status()["daemon"]["warnings"])
    assert not daemon.worker("episode")
    shop.does("resume", "camera")
    daemon.until(camera="done")
    assert reference(shop) == (2, [])


@pytest.mark.long
def test_signals_leave_a_checkpoint(shop, start, drop, pictures, reference, tmp_path):
    """SIGTERM and SIGINT in the middle of an episode: a checkpoint, exit 0, systemd knows; the next start goes on from there."""
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.setblocking(False)
        said: list[str] = []
        step = 0
        drop(pictures(0), shop.root / "inbox" / "camera")
        for number, name in ((1, "SIGTERM"), (2, "SIGINT")):
            daemon = start(shop, env=LONG | {"NOTIFY_SOCKET": str(address)})
            daemon.hear("episode begins", number)
            daemon.training(step + 5)
            begun = time.monotonic()
            assert daemon.stop(signal.Signals[name]) == 0
            assert time.monotonic() - begun < 10
            daemon.hear("stopped in order", number)
            said += received(manager)
            (step,) = shop.rows("SELECT max(step) FROM checkpoints")[0]
    assert said[0].startswith("READY=1\nWATCHDOG=1\nSTATUS=")
    assert said[-1] == "STOPPING=1"
    assert sum("READY=1" in message for message in said) == 2
    assert sum("WATCHDOG=1" in message for message in said) > 4
    assert any("STATUS=training" in message for message in said)
    last = start(shop, "--drain", env=LONG)
    assert last.end() == 0
    assert reference(shop) == (3, [])


def received(manager: socket.socket) -> list[str]:
    """What the service manager was told since."""
    said = []
    while True:
        try:
            said.append(manager.recv(4096).decode())
        except BlockingIOError:
            return said


@pytest.mark.long
def test_cancel_and_retry(shop, start, drop, pictures, reference):
    """A cancelled episode's worker is gone, its leftovers too, its images stay; retried, it is done from the beginning."""
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, env=LONG)
    worker = daemon.hold(10)
    shop.does("cancel", "camera")
    daemon.hear("it was cancelled", outcome="taken")
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), "the worker's end")
    daemon.until(camera="skipped")
    wait_until(lambda: not list((shop.state / "checkpoints").glob("*")), "sweeping")
    assert shop.rows("SELECT images FROM domains WHERE name = 'camera'") == [(39,)]
    assert len(list((shop.state / "domains").rglob("*.png"))) == 39
    assert state(shop) == "idle"
    shop.does("retry", "camera")
    daemon.until(camera="done")
    assert reference(shop) == (1, [])
    assert shop.refuses("retry", "camera").startswith("adaptd: camera is done")


def test_cancel_while_it_imports(shop, start, paint, tmp_path):
    """The import is given up and its drop kept; retried, all of it is there."""
    picture = (paint(tmp_path / "one", 1, seed=7, classes="a", flat=True) / "a-7-000.png").read_bytes()
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(6000):
        (folder / f"{number}.png").write_bytes(picture + number.to_bytes(4, "big"))
    folder.rename(shop.root / "inbox" / "many")
    daemon = start(shop, env=MANUAL)
    wait_until(lambda: list((shop.state / "cache").glob(".unfinished*")), "decoding")
    shop.does("cancel", "many")
    daemon.hear("it was cancelled", outcome="taken")
    assert daemon.domains() == {"many": "skipped"}
    assert shop.rows("SELECT count(*) FROM episodes") == [(1,)]
    shop.does("retry", "many")
    daemon.until(many="queued")
    assert shop.rows("SELECT images FROM domains WHERE name = 'many'") == [(6000,)]
    wait_until(lambda: not list((shop.state / "cache").glob(".unfinished*")), "the worker's end, after its commit")


def test_outside_of_the_window(shop, start, drop, pictures):
    """Images are imported at any time, but trained on only in the window."""
    later = datetime.now().astimezone() + timedelta(hours=2)
    window = f"{later:%H:%M}-{later + timedelta(hours=1):%H:%M}"
    drop(pictures(0), shop.root / "inbox" / "camera")
    assert start(shop, "--drain", env={"ADAPTD_INTAKE__WINDOW": window}).end() == 0
    assert shop.rows("SELECT state FROM domains WHERE name = 'camera'") == [("queued",)]


def test_reload(shop, start, drop, pictures):
    """SIGHUP takes over new settings, also for a drop that is arriving; a file that is wrong changes nothing and is reported."""
    settings, inbox = shop.root / "adaptd.toml", shop.root / "inbox"
    text = settings.read_text()
    line = next(line for line in text.splitlines() if line.startswith("#settle_seconds"))
    settings.write_text(text.replace(line, "settle_seconds = 3600.0"))
    daemon = start(shop, env=MANUAL | {"ADAPTD_INTAKE__SETTLE_SECONDS": None})
    drop(pictures(0), inbox / "camera")
    daemon.until(camera="arriving")
    settings.write_text(text.replace(line, "settle_seconds = 0.2"))
    daemon.process.send_signal(signal.SIGHUP)
    daemon.until(camera="queued")
    settings.write_text("settle = [")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.hear("the settings were not reloaded")
    drop(pictures(1), inbox / "other")
    daemon.until(other="queued")
    settings.write_text(text)
    assert any("the settings were not reloaded" in warning for warning in shop.status()["daemon"]["warnings"])
    assert daemon.stop() == 0


@pytest.mark.parametrize("words", [("pause", "nobody"), ("resume",), ("cancel", "source"), ("retry", "source")])
def test_what_cannot_be_done_is_said(shop, words):
    """One clear line, nothing changed."""
    assert shop.refuses(*words)
