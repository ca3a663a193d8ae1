"""A daemon with nothing to do costs nothing, and notices what comes."""

import time
from datetime import datetime

from .conftest import MANUAL


def test_idle_is_cheap_and_awake(shop, start, drop, pictures):
    """Hardly any processor time and no writing to the disk; a drop is noticed soon after it has settled."""
    daemon = start(shop, env=MANUAL)
    daemon.hear("watching")
    time.sleep(1)
    lock, begun, used = shop.state / "daemon.lock", time.monotonic(), daemon.cpu_seconds()
    written = lock.stat().st_mtime_ns
    time.sleep(5)
    share = (daemon.cpu_seconds() - used) / (time.monotonic() - begun)
    assert share < 0.05
    assert lock.stat().st_mtime_ns == written
    dropped = time.time()
    drop(pictures(0), shop.root / "inbox" / "camera")
    heard = datetime.fromisoformat(daemon.hear("camera: 39 files came as drop 1")["time"]).timestamp()
    assert heard - dropped < 10
