"""Row 3: the power goes while drops are imported. What was accepted, and what was quarantined, is there afterwards."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adaptd.care.fsck import check_project
from adaptd.project.layers import load_project
from tests.conftest import FAST, REPOSITORY
from tests.faults.replay import Disk, cut, record

STATES = 120 if os.environ.get("ADAPTD_FAULTS") else 12
IMPORT = (sys.executable, "-B", "-m", "tests.faults.importing")
ENV = {**os.environ, **FAST, "PYTHONPATH": str(REPOSITORY)}


def needs_strace() -> None:
    """Skip without it."""
    if shutil.which("strace") is None or subprocess.run(["strace", "-qq", "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not installed or may not trace: apt-get install strace")


def fill(shop, paint) -> None:
    """A drop of twelve images and a file that is none."""
    folder = paint(shop.root / "inbox" / "camera", 4, seed=70, flat=True)
    (folder / "broken.jpg").write_bytes(b"no image")


def find_loss(root: Path) -> list[str]:
    """What fsck finds, but for what the next start of the daemon does anyway."""
    findings = check_project(load_project(root, environ={}), show=lambda *_: None)
    return [f"{finding.what}: {finding.repair}" for finding in findings if "start the daemon" not in finding.repair]


def test_nothing_acknowledged_is_lost(shop, paint, tmp_path, figures):
    """Whatever of the unsynced writes the disk kept: rows, originals, quarantined files and caches agree."""
    needs_strace()
    fill(shop, paint)
    untouched = shop.copy(tmp_path / "untouched")
    ops = record(shop.root, [*IMPORT, shop.root], tmp_path / "log", env=ENV, cwd=REPOSITORY)
    assert {op[0] for op in ops} >= {"create", "write", "rename", "sync"}
    chance, accepted = random.Random(3), 0
    for number in range(STATES):
        shutil.rmtree(shop.root)
        moment = cut(Disk(untouched.root, "inbox"), ops, chance, shop.root)
        assert find_loss(shop.root) == [], f"state {number}, after {moment} of {len(ops)} calls"
        accepted += shop.rows("SELECT count(*) FROM images WHERE domain_id = 2") == [(12,)]
    assert accepted >= STATES // 3, "too few of the states are after the commit"
    figures(states=STATES, calls=len(ops), accepted=accepted, lost=0)


@pytest.fixture
def disk(tmp_path):
    """A folder on a filesystem in a file: gives the folder, and makes a function that mounts a copy of it elsewhere."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root and mkfs.ext4, for a filesystem in a file")
    image, mounted = tmp_path / "disk", []

    def mount(file: Path, folder: Path, options: str) -> Path:
        folder.mkdir()
        if subprocess.run(["mount", "-o", f"loop,{options}", file, folder], capture_output=True, check=False).returncode:
            pytest.skip("a filesystem in a file cannot be mounted here")
        mounted.append(folder)
        return folder

    def cut_power() -> Path:
        copy = tmp_path / "copy"
        shutil.copyfile(image, copy)
        return mount(copy, tmp_path / "after", "rw")

    with image.open("wb") as file:
        file.truncate(200 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    # Nothing is written by itself within an hour.
    yield mount(image, tmp_path / "before", "commit=3600"), cut_power
    for folder in reversed(mounted):
        subprocess.run(["umount", folder], check=True)


def test_a_disk_whose_power_goes_when_a_drop_was_accepted(shop, disk, paint):
    """ext4 in a file, copied when the import is over, and mounted again: every image and the bad file have their bytes."""
    folder, cut_power = disk
    there = shop.copy(folder / "shop")
    os.sync()
    fill(there, paint)
    subprocess.run([*IMPORT, there.root], env=ENV, cwd=REPOSITORY, check=True)
    after = cut_power() / "shop"
    assert find_loss(after) == []
    files = [path for place in ("domains", "quarantine") for path in (after / "state" / place).rglob("*") if path.is_file()]
    assert len(files) == 13
    assert all(path.stat().st_size for path in files)
