"""Row 7: somebody else holds the database, for seconds or minutes. Nothing is lost, and the log stays short."""

import contextlib
import os
import sqlite3
import time

import pytest

from tests.process.conftest import LONG, wait_until

SECONDS = (3, 30, 300) if os.environ.get("ADAPTD_FAULTS") else (3,)


@pytest.mark.parametrize("seconds", SECONDS)
def test_a_locked_database(shop, start, drop, pictures, reference, seconds, figures):
    """The episode under way ends as in an undisturbed run, what was dropped meanwhile is learned from."""
    inbox = shop.root / "inbox"
    drop(pictures(0), inbox / "camera")
    daemon = start(shop, env=LONG)
    daemon.training(10)
    with contextlib.closing(sqlite3.connect(shop.state / "adaptd.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        drop(pictures(1), inbox / "later")
        time.sleep(seconds)
        assert daemon.process.poll() is None
    wait_until(lambda: daemon.domains() == {"camera": "done", "later": "done"}, "both domains", seconds=120)
    assert daemon.stop() == 0
    ((weights,),) = shop.rows("SELECT count(*) FROM versions")
    assert weights == 3
    assert daemon.log.stat().st_size < 200_000
    assert shop.run("fsck", "--deep").returncode == 0
    _, deaths = reference(shop)
    assert deaths == [], "a locked database is not the episode's fault"
    figures(seconds=seconds, log_bytes=daemon.log.stat().st_size)
