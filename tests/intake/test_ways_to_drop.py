"""Drops as people make them, with the real watcher, scanner and claim: each becomes one delivery with all its files."""

import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from adaptd.intake.claiming import claim
from adaptd.intake.scanner import Scanner
from adaptd.intake.settling import Settling
from adaptd.intake.watching import Watcher

from .conftest import settled

SETTLE_SECONDS = 1.0


class Intake:
    """What a supervisor does with an inbox: wait, scan, claim. Deliveries are (folder's name, its files)."""

    def __init__(self, inbox, state, *, watched=True):
        self.scanner = Scanner(inbox, Settling(SETTLE_SECONDS, 60), scan_seconds=5)
        self.watcher = Watcher(inbox) if watched else None
        self.state = state
        self.deliveries = []

    def run_until(self, done):
        """Scan, claim what has settled and sleep until there is more; until something holds and the inbox is empty."""
        deadline = time.monotonic() + 60
        while True:
            finished = done()
            scan = self.scanner.scan()
            for drop in settled(scan):
                target = self.state / str(len(self.deliveries))
                claim(drop.folder, target, drop.tree.fingerprint)
                files = {str(path.relative_to(target)) for path in target.rglob("*") if not path.is_dir()}
                self.deliveries.append((drop.folder.name, files))
            if finished and settled(scan) == scan.drops:
                return
            assert time.monotonic() < deadline, (self.deliveries, "nothing more came")
            self._sleep(scan.next_look - time.monotonic())

    def _sleep(self, seconds):
        if self.watcher is None:
            time.sleep(min(max(seconds, 0), 0.2))
        else:
            self.watcher.wait(seconds)


@pytest.fixture(params=["watched", "polled"])
def intake(request, inbox, tmp_path):
    """An intake with events, and one with the observer disabled entirely: the scan is the truth."""
    intake = Intake(inbox, tmp_path / "state", watched=request.param == "watched")
    yield intake
    if intake.watcher is not None:
        intake.watcher.stop()


@pytest.fixture
def photos(tmp_path, plant):
    """A folder of 40 files in three sub-folders."""
    return plant(tmp_path / "photos", *(f"{number % 3}/{number}.jpg" for number in range(40)))


def names(folder):
    """The paths of all files below."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def in_background(work):
    """Work beside the intake; true once it is done."""
    thread = threading.Thread(target=work)
    thread.start()
    return lambda: not thread.is_alive()


def test_a_slow_copy_is_one_delivery(intake, inbox, photos):
    """Files that come one by one over several settle times, none later than that after the one before."""
    wanted = names(photos)

    def copy():
        for name in sorted(wanted):
            (inbox / "cam" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(photos / name, inbox / "cam" / name)
            time.sleep(SETTLE_SECONDS / 16)

    intake.run_until(in_background(copy))
    assert intake.deliveries == [("cam", wanted)]


def test_a_slowly_written_file_is_one_delivery(intake, inbox):
    """Growing counts as changing, though no name is new."""

    def write():
        (inbox / "cam").mkdir()
        with (inbox / "cam/1.jpg").open("wb", buffering=0) as file:
            for _ in range(24):
                file.write(b"x" * 100)
                time.sleep(SETTLE_SECONDS / 16)

    intake.run_until(in_background(write))
    assert intake.deliveries == [("cam", {"1.jpg"})]
    assert (intake.state / "0/1.jpg").stat().st_size == 2400


def run(*words):
    """Run a program in the background."""
    return in_background(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL))


def hard_link(photos, inbox):
    """Link a tree into the inbox."""
    return run("cp", "-rl", photos, inbox / "cam")


def unzip(photos, inbox):
    """Unpack an archive, with the clutter of a Mac, into the inbox."""
    with zipfile.ZipFile(photos.parent / "cam.zip", "w") as archive:
        for name in names(photos):
            archive.write(photos / name, name)
        archive.writestr("__MACOSX/._1.jpg", "clutter")
    return run("unzip", "-q", photos.parent / "cam.zip", "-d", inbox / "cam")


def rsync(photos, inbox):
    """Let rsync write its temporary names, slowly."""
    for number in range(3):
        (photos / f"large-{number}.jpg").write_bytes(os.urandom(100_000))
    return run("rsync", "-a", "--bwlimit=100", f"{photos}/", inbox / "cam")


WAYS = {
    "mv": lambda photos, inbox: run("mv", photos, inbox / "cam"),
    "cp": lambda photos, inbox: run("cp", "-r", photos, inbox / "cam"),
    "hard links": hard_link,
    "unzip": unzip,
    "rsync": rsync,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_drop_is_one_delivery(intake, inbox, photos, way):
    """Moved, copied, linked, unpacked or synchronised: one delivery with every file, none under a temporary name."""
    program = {"hard links": "cp"}.get(way, way)
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    wanted = names(photos)
    done = WAYS[way](photos, inbox)
    if way == "rsync":
        wanted |= {f"large-{number}.jpg" for number in range(3)}
    intake.run_until(done)
    assert [(name, {file for file in files if "MACOSX" not in file}) for name, files in intake.deliveries] == [("cam", wanted)]


def test_a_temporary_file_holds_the_drop_up(intake, inbox, plant):
    """A download that stalls for longer than the settle time is waited for."""

    def download():
        plant(inbox / "cam", "1.jpg", ".2.jpg.Ab3dEf", "3.jpg.crdownload")
        time.sleep(1.5 * SETTLE_SECONDS)
        (inbox / "cam/.2.jpg.Ab3dEf").rename(inbox / "cam/2.jpg")
        time.sleep(1.5 * SETTLE_SECONDS)
        (inbox / "cam/3.jpg.crdownload").rename(inbox / "cam/3.jpg")

    intake.run_until(in_background(download))
    assert intake.deliveries == [("cam", {"1.jpg", "2.jpg", "3.jpg"})]


def test_the_mark_is_waited_for_by_nobody(inbox, tmp_path, plant):
    """With `_READY` a drop is claimed at once, however long the settle time; the mark goes along."""
    intake = Intake(inbox, tmp_path / "state")
    intake.scanner = Scanner(inbox, Settling(10_000, 10_000))
    with intake.watcher:
        plant(inbox / "cam", "1.jpg")
        intake.scanner.scan()
        done = in_background((inbox / "cam/_READY").touch)
        intake.run_until(done)
    assert intake.deliveries == [("cam", {"1.jpg", "_READY"})]


def test_files_after_the_claim_are_the_next_delivery(intake, inbox, plant):
    """The same name again is another delivery with only what is new."""
    plant(inbox / "cam", "1.jpg")
    intake.run_until(lambda: True)
    plant(inbox / "cam", "2.jpg")
    intake.run_until(lambda: True)
    assert intake.deliveries == [("cam", {"1.jpg"}), ("cam", {"2.jpg"})]


MANY = """
import os, sys
for folder in range(50):
    os.mkdir(f"{sys.argv[1]}/{folder}")
    for file in range(1000):
        os.close(os.open(f"{sys.argv[1]}/{folder}/{file}.jpg", os.O_CREAT | os.O_WRONLY))
"""


def test_a_flood_is_seen_whole_while_the_interpreter_is_busy(inbox, tmp_path):
    """50,000 files while another thread keeps the interpreter busy: one delivery, none missed, memory within bounds."""
    intake = Intake(inbox, tmp_path / "state")
    (inbox / "cam").mkdir()
    writer = subprocess.Popen([sys.executable, "-c", MANY, inbox / "cam"])
    busy = True

    def spin():
        while busy:
            sum(range(1000))

    def stop_when_written():
        nonlocal busy
        busy = writer.poll() is None
        return not busy

    thread = threading.Thread(target=spin)
    thread.start()
    before = resident_bytes()
    try:
        intake.run_until(stop_when_written)
    finally:
        busy = False
        thread.join()
        intake.watcher.stop()
    assert [(name, len(files)) for name, files in intake.deliveries] == [("cam", 50_000)]
    assert resident_bytes() - before < 80_000_000


def resident_bytes():
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
