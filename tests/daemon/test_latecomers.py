"""The look for late files at the start of a daemon."""

import time

import pytest

from adaptd.daemon.latecomers import Latecomers
from adaptd.errors import StoreBusy
from adaptd.project.layers import Project
from adaptd.project.settings import Settings
from adaptd.records import DomainState
from adaptd.store import NewDrop, Store
from adaptd.store.migrate import upgrade


def finish(late: Latecomers) -> None:
    """Begin a look, and take in what it finds."""
    late._next_look = -1.0
    late.look()
    while not late._looking.done():
        time.sleep(0.01)
    late.look()


def test_a_look_that_failed_is_made_again_at_everything(tmp_path, monkeypatch):
    """The database was busy at the start: an old drop is looked at by the next look, not only by the next start."""
    state = tmp_path / "state"
    (state / "domains" / "1" / "1").mkdir(parents=True)
    upgrade(state / "adaptd.db", tmp_path)
    with Store(state / "adaptd.db", 5.0) as store:
        with store.writing() as tx:
            domain = tx.domains.add("cam", DomainState.DONE)
            tx.drops.add(NewDrop(domain.id, 1, "domains/1/1", "cam", "f", 1, 1))
        late, looked = Latecomers(Project(tmp_path, Settings(), {}), store), []
        monkeypatch.setattr("adaptd.daemon.latecomers.RECENT_SECONDS", 0.0)
        monkeypatch.setattr(late, "_look_at", lambda drop, _: looked.append(drop.number))
        with monkeypatch.context() as busy:
            busy.setattr(store, "reading", lambda: (_ for _ in ()).throw(StoreBusy("busy")))
            with pytest.raises(StoreBusy):
                finish(late)
        finish(late)
        assert looked == [1]
        finish(late)
        assert looked == [1], "later looks are at recent drops only"
