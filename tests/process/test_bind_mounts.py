"""Inbox and state on one disk, but mounted one by one, as containers do: no rename works, and copying holds nothing up."""

import os
import shutil
import subprocess
import time

import pytest

from tests.process.conftest import MANUAL, wait_until

MOUNTING = 'mount --bind "$1" "$1" && mount --bind "$2" "$2" && shift 2 && exec "$@"'
LARGE = 4 << 30


def test_copying_holds_nothing_up(shop, start, pictures):
    """While a large file is copied the daemon takes its turns and stops when asked; the next start takes the drop whole."""
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    if subprocess.run([*unshare, "mount", "--bind", shop.state, shop.state], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount in a namespace of its own")
    if shutil.disk_usage(shop.root).free < 2 * LARGE:
        pytest.skip("needs 8 GB of room")
    inbox = shop.root / "inbox"
    shutil.copytree(pictures(0), inbox / "camera")
    with (inbox / "camera" / "a-large.bin").open("wb") as file:
        file.truncate(LARGE)
    around = (*unshare, "sh", "-c", MOUNTING, "sh", str(inbox), str(shop.state))
    daemon = start(shop, around=around, env=MANUAL)
    copy = shop.state / "domains" / "2" / ".claiming-1" / "a-large.bin"
    wait_until(lambda: copy.exists() and copy.stat().st_size > 100 << 20, "the copy begins")
    (inbox / "loose.png").touch()
    daemon.hear("lie loose")
    began = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - began < 10
    assert copy.stat().st_size < LARGE
    assert len(list((inbox / "camera").iterdir())) == len(list(pictures(0).iterdir())) + 1
    os.truncate(inbox / "camera" / "a-large.bin", 1000)
    assert start(shop, "--drain", around=around, env=MANUAL).end() == 0
    assert shop.rows("SELECT state, images, quarantined FROM domains WHERE name = 'camera'") == [("queued", 39, 1)]
    assert [path.name for path in inbox.iterdir()] == ["loose.png"]
