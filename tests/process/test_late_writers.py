"""Writers that hold a folder open after it was claimed: what they write is a later delivery, and nothing of it is deleted."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from .conftest import wait_until

ENV = {"ADAPTD_TRAINING__EPOCHS": "1", "ADAPTD_INTAKE__MINIMUM_IMAGES": "3"}


def digest(path: Path) -> str:
    """Of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def accepted(shop) -> set[str]:
    """The hashes of all images of the camera."""
    return {sha for (sha,) in shop.rows("SELECT sha256 FROM images WHERE domain_id = 2")}


def fsck(shop) -> list[dict[str, str]]:
    """What it finds."""
    return json.loads(shop.run("fsck", "--json").stdout)["findings"]


def test_an_archive_that_stalls(shop, start, paint, tmp_path):
    """Tar stops in the middle of a file for longer than a drop takes to settle, then goes on: every image is accepted."""
    pictures, packed = paint(tmp_path / "pictures", 10, seed=60, flat=True), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(pictures, "")
    content, folder = packed.getvalue(), shop.root / "inbox" / "camera"
    folder.mkdir()
    unpacking = subprocess.Popen(["tar", "-x", "-b", "1", "-C", folder], stdin=subprocess.PIPE)
    unpacking.stdin.write(content[: len(content) // 2 + 700])
    unpacking.stdin.flush()
    daemon = start(shop, env=ENV)
    daemon.hear("came as drop 1")
    wait_until(lambda: len(accepted(shop)) >= 10, "the first half")
    unpacking.stdin.write(content[len(content) // 2 + 700 :])
    unpacking.stdin.close()
    assert unpacking.wait(30) == 0
    wanted = {digest(path) for path in pictures.iterdir()}
    wait_until(lambda: accepted(shop) >= wanted, "the second half")
    daemon.until(camera="done")
    assert daemon.stop() == 0
    assert fsck(shop) == []
    assert shop.rows("SELECT count(*) FROM quarantine") == [(0,)], "the half-written file is whole now"


@pytest.fixture
def held(shop, start, paint, tmp_path):
    """A drop that was imported while a writer has it open: the folder, an accepted image, and half of another."""
    pictures = paint(tmp_path / "pictures", 4, seed=61, flat=True)
    folder = shop.root / "inbox" / "camera"
    shutil.copytree(pictures, folder)
    whole = (pictures / "a-61-000.png").read_bytes()
    half = paint(tmp_path / "half", 1, seed=62, classes="a", flat=True) / "a-62-000.png"
    (folder / "half.png").write_bytes(half.read_bytes()[:99])
    (folder / "twin.png").write_bytes(whole)
    handles = os.open(folder, os.O_DIRECTORY), (folder / "half.png").open("ab"), (folder / "b-61-001.png").open("r+b")
    daemon = start(shop, "--drain", env=ENV)
    assert daemon.end() == 0
    assert shop.rows("SELECT reason, size_bytes FROM quarantine") == [("truncated", 99)]
    yield handles
    os.close(handles[0])
    for file in handles[1:]:
        file.close()


@pytest.mark.long
def test_what_is_written_while_nobody_looks(shop, held, start, paint, tmp_path):
    """Fsck tells it apart and does not speak of backups, gc leaves it alone, and the next start takes it in."""
    folder, half, image = held
    new = paint(tmp_path / "new", 4, seed=63, flat=True)
    for path in new.iterdir():
        # As a shell does that is in the folder.
        with open(path.name, "wb", opener=lambda name, flags: os.open(name, flags, 0o644, dir_fd=folder)) as file:
            file.write(path.read_bytes())
    half.write((tmp_path / "half" / "a-62-000.png").read_bytes()[99:])
    half.flush()
    other = paint(tmp_path / "other", 1, seed=64, classes="b", flat=True) / "b-64-000.png"
    image.truncate(0)
    image.write(other.read_bytes())  # rsync --inplace
    image.flush()
    findings = fsck(shop)
    assert len(findings) == 2, findings
    assert not any("backup" in finding["repair"] for finding in findings)
    before = sorted(digest(path) for path in (shop.state / "domains").rglob("*.png"))
    shop.does("gc", "--originals", "--yes")
    assert before == sorted(digest(path) for path in (shop.state / "domains").rglob("*.png")), "gc deleted a file without a row"
    assert start(shop, "--drain", env=ENV).end() == 0
    wanted = {digest(path) for path in (*new.iterdir(), other, tmp_path / "half" / "a-62-000.png")}
    assert wanted <= accepted(shop)
    assert fsck(shop) == []
    assert shop.rows("SELECT number, delivery, accepted FROM drops") == [(1, 1, 11), (2, 2, 14)]
    shop.does("gc", "--originals", "--yes")
    assert list((shop.state / "domains").rglob("*.png")) == []
    assert fsck(shop) == []


def test_a_drop_that_waits_for_more(shop, start, paint, tmp_path):
    """Too few images wait; what a writer adds to the same folder is more, and they are learned from together."""
    folder = shop.root / "inbox" / "camera"
    paint(folder, 1, seed=65, flat=True)
    handle = os.open(folder, os.O_DIRECTORY)
    env = ENV | {"ADAPTD_INTAKE__MINIMUM_IMAGES": "9"}
    daemon = start(shop, env=env)
    wait_until(lambda: shop.rows("SELECT count(*) FROM domains WHERE reason LIKE '%too few%'") == [(1,)], "waiting")
    for path in paint(tmp_path / "more", 3, seed=66, flat=True).iterdir():
        with open(path.name, "wb", opener=lambda name, flags: os.open(name, flags, 0o644, dir_fd=handle)) as file:
            file.write(path.read_bytes())
    os.close(handle)
    daemon.until(camera="done")
    assert shop.rows("SELECT number, delivery, accepted FROM drops") == [(1, 1, 12)]
