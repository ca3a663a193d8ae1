"""Row 10: the inbox is a mount, and goes away while it is scanned and while a drop is copied out of it; later it is back."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from tests.process.conftest import MANUAL, wait_until, warned

COUNT = 300


@pytest.fixture
def mounted(shop, tmp_path):
    """Mounts and unmounts the inbox; another filesystem to those who rename, so that drops are copied."""
    inbox, disk = shop.root / "inbox", tmp_path / "disk"
    disk.mkdir()

    def switch(*, on: bool) -> None:
        command = ["mount", "--bind", disk, inbox] if on else ["umount", "--lazy", inbox]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode and on:
            pytest.skip(f"needs to mount a folder, which is not allowed here: {run.stderr.strip()}")

    switch(on=True)
    yield switch
    with contextlib.suppress(OSError):
        switch(on=False)


def write_images(folder: Path, image: bytes) -> None:
    """Many files that all differ: what follows an image's end is no part of it."""
    folder.mkdir()
    for number in range(COUNT):
        (folder / f"{number}.png").write_bytes(image + b"%d" % number)


@pytest.mark.parametrize("moment", ["arriving", "copying"])
def test_the_inbox_goes_away(shop, start, pictures, mounted, moment):
    """Nothing is taken for deleted; when it is back, all of the drop comes."""
    inbox, image = shop.root / "inbox", min(pictures(0).glob("*.png")).read_bytes()
    daemon = start(shop, env=MANUAL | {"ADAPTD_INTAKE__SETTLE_SECONDS": "2"})
    daemon.hear("watching")
    write_images(inbox / "camera", image)
    if moment == "arriving":
        daemon.until(camera="arriving")
    else:
        wait_until(lambda: list((shop.state / "domains").glob("*/.claiming-*")), "copying")
    mounted(on=False)
    wait_until(lambda: warned(shop, "is not mounted any more") or daemon.domains() == {"camera": "queued"}, "the alarm")
    assert daemon.domains()["camera"] != "skipped"
    mounted(on=True)
    daemon.until(camera="queued")
    assert daemon.stop() == 0
    assert shop.rows("SELECT images FROM domains WHERE name = 'camera'") == [(COUNT,)]
    assert list((inbox / "camera").glob("*.png")) == []
    assert shop.run("fsck").returncode == 0
