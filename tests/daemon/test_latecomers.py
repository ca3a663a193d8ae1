"""The look for late files at the start of a daemon."""

import os
import subprocess
import time

import pytest

from adaptd.daemon.latecomers import Latecomers
from adaptd.errors import StoreBusy
from adaptd.project.layers import Project
from adaptd.project.settings import IntakeSettings, Settings
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


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a filesystem takes root")
def test_late_files_that_cannot_be_moved(tmp_path):
    """A mount in the claimed folder: told, tried again later, no row is left, and nobody waits for it."""
    state, now = tmp_path / "state", [0.0]
    folder = state / "domains" / "1" / "1" / "sub"
    folder.mkdir(parents=True)
    upgrade(state / "adaptd.db", tmp_path)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with Store(state / "adaptd.db", 5.0) as store:
            with store.writing() as tx:
                domain = tx.domains.add("cam", DomainState.DONE)
                tx.drops.add(NewDrop(domain.id, 1, "domains/1/1", "cam", "f", 1, 1))
                tx.drops.take_in([1], 1)
            (folder / "late.png").write_text("late")
            settings = Settings(intake=IntakeSettings(settle_seconds=0.1))
            late = Latecomers(Project(tmp_path, settings, {}), store, lambda: now[0])
            time.sleep(0.2)
            for _ in range(3):
                finish(late)
                with store.reading() as tx:
                    assert [drop.number for drop in tx.drops.list_all()] == [1]
            assert "cannot be taken" in late.warnings[0]
            assert late.is_quiet
            assert (folder / "late.png").read_text() == "late"
    finally:
        subprocess.run(["umount", folder], check=True)
