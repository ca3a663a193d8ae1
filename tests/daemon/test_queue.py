"""When training may go on, and how long trouble is waited for."""

import logging
from datetime import datetime

import pytest

from adaptd.daemon import patience, queue
from adaptd.daemon.control import retry
from adaptd.daemon.patience import Patience
from adaptd.daemon.queue import is_open
from adaptd.errors import StoreBusy
from adaptd.project.settings import Settings
from adaptd.records import DomainState
from adaptd.store import NewDrop, Store
from adaptd.store.migrate import upgrade


@pytest.mark.parametrize(
    ("window", "clock", "expected"),
    [
        ("", "03:00", True),
        ("09:00-17:00", "08:59", False),
        ("09:00-17:00", "09:00", True),
        ("09:00-17:00", "16:59", True),
        ("09:00-17:00", "17:00", False),
        ("22:00-06:00", "21:59", False),
        ("22:00-06:00", "22:00", True),
        ("22:00-06:00", "00:00", True),
        ("22:00-06:00", "05:59", True),
        ("22:00-06:00", "06:00", False),
        ("22:00-06:00", "12:00", False),
        ("00:00-00:00", "12:00", False),
    ],
)
def test_windows(window, clock, expected):
    """The start belongs to a window, the end does not; one may reach across midnight."""
    assert is_open(window, datetime.fromisoformat(f"2026-03-01T{clock}").astimezone()) is expected


def test_trouble_is_waited_for_and_told_once(monkeypatch, caplog):
    """Nothing is tried while it waits, longer each time; the log hears of the beginning and the end."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(patience, "SECONDS", (0.0, 0.0))
    work, tries = Patience("work"), []

    def fail() -> None:
        tries.append(1)
        raise StoreBusy("locked")

    for _ in range(5):
        assert not work.attempt(fail)
    assert len(tries) == 5
    work._seconds = 100.0
    work.attempt(fail)
    assert work.trouble == "locked"
    assert not work.attempt(fail)
    assert len(tries) == 6, "tried while it waits"
    work.clear()
    assert work.trouble == ""
    assert work.attempt(lambda: None)
    assert [record.message for record in caplog.records] == ["work is in trouble, trying again: locked", "work is out of trouble"]


def test_what_nobody_expects_is_not_swallowed():
    """Only the machine's trouble is waited for; a mistake of ours is an error."""
    with pytest.raises(ZeroDivisionError):
        Patience("work").attempt(lambda: 1 / 0)


def test_what_waits_for_a_finished_domain_is_looked_at_once(tmp_path):
    """It is imported again with the next drop, or when a person says so."""
    upgrade(tmp_path / "adaptd.db", tmp_path / "backups")
    with Store(tmp_path / "adaptd.db") as store:

        def is_next() -> bool:
            with store.reading() as tx:
                return queue._find_import(tx, frozenset()) is not None

        def come(number: int) -> None:
            with store.writing() as tx:
                tx.drops.add(NewDrop(1, number, f"domains/1/{number}", "camera", "f", 1, 1))

        with store.writing() as tx:
            tx.domains.place(tx.domains.add("camera", DomainState.DONE).id)
        come(1)
        assert is_next()
        with store.writing() as tx:
            tx.drops.set_taken(1, "f", None)
        assert not is_next()
        come(2)
        assert is_next()
        with store.writing() as tx:
            tx.drops.set_taken(2, "f", None)
        assert retry(store, "camera", Settings()) == "camera is tried again, from its images on"
        assert is_next()
