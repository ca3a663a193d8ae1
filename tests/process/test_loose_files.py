"""Row 19, the inbox: very many loose files are one warning with the command that helps, and hold nothing up."""

import os
import subprocess
import time

from tests.process.conftest import MANUAL

LOOSE = int(os.environ.get("ADAPTD_LOOSE", "4000"))


def test_loose_files(shop, start, drop, pictures):
    """`cp photos/* inbox/`: told once, a drop goes on, the log stays short, it stops at once; the told command makes a domain."""
    inbox = shop.root / "inbox"
    for number in range(LOOSE):
        os.close(os.open(inbox / f"{number}.jpg", os.O_CREAT | os.O_WRONLY))
    drop(pictures(0), inbox / "camera")
    daemon = start(shop, env=MANUAL)
    daemon.until(camera="queued")
    used, began = daemon.cpu_seconds(), time.monotonic()
    time.sleep(3)
    assert daemon.cpu_seconds() - used < 0.5 * (time.monotonic() - began)
    (warning,) = [warning for warning in shop.status()["daemon"]["warnings"] if "lie loose" in warning]
    assert f"not taken, {LOOSE:,} of them (0.jpg, 1.jpg, 10.jpg, …)" in warning
    began = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - began < 10
    assert len(daemon.lines("lie loose")) == 1
    assert daemon.log.stat().st_size < 20_000
    command = warning.partition(" a domain NAME: ")[2].replace("NAME", "photos")
    subprocess.run(["sh", "-c", command], check=True)
    assert [path.name for path in inbox.iterdir()] == ["photos"]
    assert len(list((inbox / "photos").iterdir())) == LOOSE
