"""However a folder comes into the inbox: it becomes one delivery with everything in it, and every file is accounted for."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import MANUAL, wait_until

PER_DOMAIN = """SELECT d.name, count(DISTINCT e.id), d.images FROM domains d JOIN episodes e ON e.domain_id = d.id
                WHERE d.name != 'source' GROUP BY d.name ORDER BY d.name"""


def slowly(folder: Path, target: Path, seconds: float) -> None:
    """Copy file by file, as over a slow line."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        time.sleep(seconds / len(files))


def as_rsync(folder: Path, target: Path) -> None:
    """With rsync where it is installed, else with names as it makes them: each file grows under another name first."""
    if shutil.which("rsync"):
        subprocess.run(["rsync", "-a", "--bwlimit=40", f"{folder}/", f"{target}/"], check=True)
        return
    target.mkdir()
    for path in sorted(folder.glob("*.png")):
        unfinished = target / f".{path.name}.a1B2c3"
        unfinished.write_bytes(path.read_bytes()[:100])
        time.sleep(0.02)
        shutil.copyfile(path, unfinished)
        unfinished.rename(target / path.name)


def test_every_way_in_gives_one_episode_with_all_images(shop, start, drop, paint, tmp_path):
    """File by file, moved, by rsync, unpacked: one episode each, nothing missed, and the daemon drains by itself."""
    folders = [paint(tmp_path / f"f{n}", 100 if n == 0 else 30, seed=40 + n, flat=True) for n in range(4)]
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", folders[3])
    inbox = shop.root / "inbox"
    daemon = start(shop, env=MANUAL)
    daemon.hear("watching")
    slowly(folders[0], inbox / "slow", 4)
    drop(folders[1], inbox / "moved")
    as_rsync(folders[2], inbox / "synced")
    shutil.unpack_archive(archive, inbox / "unzipped")
    daemon.until(slow="queued", moved="queued", synced="queued", unzipped="queued")
    assert daemon.stop() == 0
    assert start(shop, "--drain", env=MANUAL).end() == 0
    assert shop.rows(PER_DOMAIN) == [("moved", 1, 90), ("slow", 1, 300), ("synced", 1, 90), ("unzipped", 1, 90)]
    assert list(inbox.iterdir()) == []


def test_many_tiny_files_at_once(shop, start, paint, tmp_path):
    """Thousands of names that come faster than events can be read: none is missed."""
    picture = (paint(tmp_path / "one", 1, seed=7, classes="a", flat=True) / "a-7-000.png").read_bytes()
    folder = shop.root / "inbox" / "many"
    daemon = start(shop, env=MANUAL)
    daemon.hear("watching")
    for number in range(4000):
        path = folder / f"{number % 20}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture + number.to_bytes(4, "big"))  # bytes after the end make every file another
    daemon.until(many="queued")
    assert shop.rows(PER_DOMAIN) == [("many", 1, 4000)]
    assert shop.rows("SELECT files, accepted FROM drops") == [(4000, 4000)]


@pytest.mark.long
def test_late_files_and_known_files(shop, start, drop, pictures, paint, tmp_path):
    """What comes later is the next delivery; what is known already brings nothing new; too little waits for more."""
    inbox = shop.root / "inbox"
    few = paint(tmp_path / "few", 2, seed=77, flat=True)
    more = paint(tmp_path / "more", 6, seed=78, flat=True)
    drop(pictures(0), inbox / "camera")
    daemon = start(shop, env={"ADAPTD_INTAKE__MINIMUM_IMAGES": "16", "ADAPTD_TRAINING__EPOCHS": "2"})
    daemon.until(camera="training")
    drop(few, inbox / "camera")
    daemon.hear("camera: 6 files came as drop 2")
    waits = "SELECT count(*) FROM domains WHERE state = 'done' AND reason LIKE '%too few images%6 training images%'"
    wait_until(lambda: shop.rows(waits) == [(1,)], "waiting for more")
    drop(more, inbox / "camera")
    wait_until(lambda: shop.rows("SELECT count(*) FROM episodes WHERE state = 'done'") == [(3,)], "the second delivery")
    drop(pictures(0), inbox / "camera")
    wait_until(lambda: shop.rows("SELECT count(*) FROM drops WHERE delivery = 0") == [(1,)], "nothing new")
    daemon.until(camera="done")
    assert daemon.stop() == 0
    assert shop.rows("SELECT number, delivery, accepted, duplicates FROM drops ORDER BY id") == [
        (1, 1, 39, 0),
        (2, 2, 6, 0),
        (3, 2, 18, 0),
        (4, 0, 0, 39),
    ]
    assert shop.rows("SELECT count(*) FROM events WHERE kind = 'drop-nothing-new'") == [(1,)]


def test_in_place(shop, start, drop, pictures, paint, tmp_path):
    """Drops are read where they lie: untouched, not imported again after a restart, and what comes later is another drop."""
    inbox, env = shop.root / "inbox", MANUAL | {"ADAPTD_INTAKE__MODE": "in-place"}
    folder = drop(pictures(0), inbox / "camera")
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))
    for path in (folder, folder / "_test", inbox):
        path.chmod(0o555)
    assert start(shop, "--drain", env=env).end() == 0
    assert start(shop, "--drain", env=env).end() == 0
    assert shop.rows("SELECT state, images FROM domains WHERE name = 'camera'") == [("queued", 39)]
    assert shop.rows("SELECT delivery, accepted FROM drops") == [(1, 39)]
    assert before == sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))
    for path in (inbox, folder, folder / "_test"):
        path.chmod(0o755)
    paint(folder, 6, seed=79, flat=True)
    assert start(shop, "--drain", env=env).end() == 0
    assert shop.rows("SELECT number, delivery, files FROM drops ORDER BY id") == [(1, 1, 39), (2, None, 57)], (
        "the next delivery waits"
    )


def test_from_another_filesystem(shop, start, drop, pictures):
    """Where a rename cannot work the drop is copied, and gone from the inbox afterwards."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == shop.root.stat().st_dev or not os.access(memory, os.W_OK):
        pytest.skip("/dev/shm is not another filesystem that can be written")
    inbox = memory / f"adaptd-{os.getpid()}"
    inbox.mkdir()
    try:
        shutil.copytree(pictures(0), inbox / "camera")
        assert start(shop, "--drain", env=MANUAL | {"ADAPTD_PATHS__INBOX": str(inbox)}).end() == 0
        assert shop.rows(PER_DOMAIN) == [("camera", 1, 39)]
        assert list(inbox.iterdir()) == []
    finally:
        shutil.rmtree(inbox)


def test_names_of_folders(shop, start, drop, pictures):
    """Any name is a domain's, but for the source's, which stays in the inbox with a warning; loose files do too."""
    inbox = shop.root / "inbox"
    drop(pictures(0), inbox / "Camera 7 (größe)\n<b>")
    drop(pictures(1), Path(os.fsdecode(os.fsencode(inbox) + b"/na\xefve")))
    drop(pictures(2), inbox / "source")
    (inbox / "loose.png").write_bytes(b"x")
    daemon = start(shop, env=MANUAL)
    daemon.until(**{"Camera 7 (größe)\\x0a<b>": "queued", "na\\xefve": "queued"})
    warnings = "\n".join(shop.status()["daemon"]["warnings"])
    for word in ("cannot name a domain, 1 of them (source)", "not taken, 1 of them (loose.png)"):
        assert word in warnings
        assert daemon.lines(word), "not in the log"
    assert daemon.stop() == 0
    assert sorted(path.name for path in inbox.iterdir()) == ["loose.png", "source"]


def test_drain_does_not_wait_for_an_inbox_that_is_away(shop, start):
    """A batch run ends with an error, rather than never."""
    (shop.root / "inbox").rmdir()
    daemon = start(shop, "--drain", env=MANUAL)
    assert daemon.end() == 1
    assert "is not available" in daemon.log.read_text()


def test_drain_ends_where_nothing_can_get_better(shop, start, drop, pictures):
    """Without room nothing is claimed, and nobody will make some: it says so, and the drop stays."""
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, "--drain", env={"ADAPTD_INTAKE__MIN_FREE_BYTES": str(2**60)})
    assert (daemon.end(), "bytes are free for" in daemon.log.read_text()) == (1, True)
    assert (shop.root / "inbox" / "camera").is_dir()
