"""Row 4: no byte is free on the project's disk, while `adaptd serve` answers. A full disk at each write is in test_syscalls."""

import contextlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import Shop
from tests.process.conftest import LONG, wait_until, warned

pytestmark = pytest.mark.long


@pytest.fixture
def small_disk(shop, tmp_path):
    """The project on a disk of a few megabytes."""
    mount = tmp_path / "disk"
    mount.mkdir()
    run = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(mount)], capture_output=True, text=True, check=False
    )
    if run.returncode:
        pytest.skip(f"needs to mount a tmpfs, which is not allowed here: {run.stderr.strip()}")
    try:
        yield Shop(Path(shutil.copytree(shop.root, mount / "shop")), shop.zygote)
    finally:
        wait_until(lambda: subprocess.run(["umount", str(mount)], capture_output=True, check=False).returncode == 0, "unmounting")


def fill_up(path: Path) -> None:
    """Leave no byte free."""
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(b"x")


def test_a_full_disk(small_disk, start, serve, pictures, reference, figures):
    """It pauses with a clear state, serving goes on, nothing is lost, and work goes on by itself when there is room."""
    shop, inbox = small_disk, small_disk.root / "inbox"
    staged = Path(shutil.copytree(pictures(1), shop.root / "staged"))
    shutil.copytree(pictures(0), inbox / "camera")
    daemon, client = start(shop, env=LONG), serve(shop)
    daemon.training(10)
    ballast = shop.root / "ballast"
    fill_up(ballast)
    daemon.hear("a worker is in trouble")
    staged.rename(inbox / "later")
    daemon.hear("the intake is in trouble")
    fill_up(ballast)
    assert daemon.process.poll() is None
    wait_until(lambda: warned(shop, "trying again by itself"), "the alarm")
    answered = len(client.seconds)
    wait_until(lambda: len(client.seconds) > answered + 20, "answers beside a full disk")
    begun, reached = time.monotonic(), shop.rows("SELECT coalesce(max(step), 0) FROM checkpoints")
    ballast.unlink()
    wait_until(lambda: shop.rows("SELECT coalesce(max(step), 9999) FROM checkpoints") > reached, "training again", seconds=60)
    resumed = time.monotonic() - begun
    daemon.until(camera="done")
    wait_until(lambda: shop.rows("SELECT delivery FROM drops ORDER BY id") == [(1,), (1,)], "the import of the second")
    assert daemon.stop() == 0
    attempts, deaths = reference(shop)
    assert attempts > 1
    assert deaths == [], "a full disk is not the episode's fault"
    assert shop.rows("SELECT name, images FROM domains WHERE name != 'source'") == [("camera", 39), ("later", 39)]
    assert client.errors == []
    figures(resumed_seconds=resumed, answers=len(client.seconds))
