"""Row 7: somebody else holds the database, for seconds or minutes. Nothing is lost, and the log stays short."""

import contextlib
import os
import sqlite3
import time

import pytest

from tests.process.conftest import LONG, wait_until, warned

pytestmark = pytest.mark.long

SECONDS = (3, 30, 300) if os.environ.get("ADAPTD_FAULTS") else (3,)


@pytest.mark.parametrize("seconds", SECONDS)
def test_a_locked_database(shop, start, drop, pictures, reference, seconds, figures):
    """The daemon says so once, the episode under way ends as in an undisturbed run, what came meanwhile is learned from."""
    inbox = shop.root / "inbox"
    drop(pictures(0), inbox / "camera")
    daemon = start(shop, env=LONG)
    daemon.training(10)
    with contextlib.closing(sqlite3.connect(shop.state / "adaptd.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        begun = time.monotonic()
        drop(pictures(1), inbox / "later")
        wait_until(lambda: warned(shop, "kept the database locked"), "the alarm")
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
        assert len(daemon.lines("the intake is in trouble")) == 1
        assert daemon.process.poll() is None
        assert (inbox / "later").is_dir()
    daemon.until(camera="done", later="done")
    assert daemon.stop() == 0
    assert shop.rows("SELECT count(*) FROM versions") == [(3,)]
    assert daemon.log.stat().st_size < 200_000
    assert shop.run("fsck", "--deep").returncode == 0
    assert reference(shop)[1] == [], "a locked database is not the episode's fault"
    figures(seconds=seconds, log_bytes=daemon.log.stat().st_size)
