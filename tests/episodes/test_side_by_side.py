"""Several processes on one project: a second worker, a watcher, a database that somebody else keeps locked."""

import contextlib
import json
import signal
import sqlite3
import threading
import time

import pytest

from adaptd.errors import Interrupted, ProjectBusy
from adaptd.learning.checkpoint import read_checkpoint
from adaptd.project.lock import find_holder, hold_project
from tests.episodes.library import Library


def test_two_at_once(shop, night, source):
    """The second `adapt` says at once who is at work, exits with 1 and writes nothing; the first is not disturbed."""
    first = shop.start("adapt", night, "--epochs", 40)
    while shop.rows("SELECT count(*) FROM checkpoints") == [(0,)]:
        time.sleep(0.001)
    start = time.monotonic()
    second = shop.run("adapt", source, "--domain", "other")
    assert time.monotonic() - start < 5
    told = f"adaptd: process {first.pid} (adaptd adapt) is working on {shop.root}: wait for it, or stop it first\n"
    assert (second.returncode, second.stderr) == (1, told)
    assert first.is_running(), "the first ended too early for this to prove anything"
    assert shop.rows("SELECT name FROM domains ORDER BY id") == [("source",), ("night",)]
    assert first.wait().returncode == 0


def test_status_while_it_runs(shop, night):
    """Phase, steps, share and time left of the running episode, and who works on it; afterwards nothing runs."""
    seconds_between = {"ADAPTD_TRAINING__CHECKPOINT_SECONDS": "60"}
    process = shop.start("adapt", night, "--epochs", 400, env=seconds_between)
    while not shop.rows("SELECT step FROM episodes WHERE phase = 'training'"):
        time.sleep(0.01)
    document = shop.status()
    assert process.is_running()
    episode = document["episode"]
    assert (episode["domain"], episode["phase"], episode["steps"]) == ("night", "training", 800)
    assert 0 < episode["progress"] < 1
    assert episode["eta_seconds"] > 0
    assert document["daemon"]["pid"] == process.pid
    assert document["daemon"]["command"] == "adapt"
    assert document["daemon"]["state"] == "training"
    assert f"adaptd adapt works as {process.pid}" in shop.does("status").stdout
    process.signal(15)
    process.wait()
    assert shop.status()["daemon"]["state"] == "stopped"


def test_the_episode_that_moved_last_is_shown(shop, night, paint, tmp_path):
    """An interrupted episode on one domain does not hide the one at work on another, and starts from the newest model later."""
    stop_after(shop, "adapt", night)
    fog = paint(tmp_path / "fog", 10, seed=10, flat=True)
    stop_after(shop, "adapt", fog)
    assert shop.status()["episode"]["domain"] == "fog"
    shop.does("adapt", fog)
    assert shop.rows("SELECT count(*) FROM checkpoints") == [(0,)], "the night's began from a model that is not the newest now"
    assert shop.leftovers() == []
    shop.does("adapt", night)
    assert shop.rows("SELECT version, parent FROM versions") == [(1, None), (2, 1), (3, 2)]
    assert shop.status()["matrix"]["domains"] == ["source", "fog", "night"]


def stop_after(shop, *words: object) -> None:
    """Run a command until an episode of its own has a checkpoint."""
    query = "SELECT coalesce(max(episode_id), 0) FROM checkpoints"
    before = shop.rows(query)
    process = shop.start(*words)
    while shop.rows(query) == before:
        time.sleep(0.001)
    process.signal(15)
    assert process.wait().returncode == 143


def test_looking_is_not_working(tmp_path):
    """However often somebody looks who holds the project, taking it never fails; held, it always does."""
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            find_holder(tmp_path)

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(200):
            with hold_project(tmp_path, "adapt"):
                pass
        with hold_project(tmp_path, "adapt"), pytest.raises(ProjectBusy, match="adaptd adapt"), hold_project(tmp_path, "run"):
            pass
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()


def test_no_step_holds_a_transaction(shop, monkeypatch, night):
    """Between any two steps another process may write at once."""
    library = Library(shop, monkeypatch, night)
    steps = []

    def write(report) -> None:
        with contextlib.closing(sqlite3.connect(shop.state / "adaptd.db", timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        steps.append(report.step)

    library.run(write)
    assert steps == list(range(1, 13))


def test_a_locked_database_does_not_end_an_episode(shop, monkeypatch, night):
    """Progress is skipped, checkpoints and the commit wait: a lock much longer than the busy timeout costs time, nothing else."""
    library = Library(shop, monkeypatch, night, ADAPTD_DATABASE__BUSY_TIMEOUT_SECONDS="0.1")
    other = sqlite3.connect(shop.state / "adaptd.db", timeout=30, isolation_level=None, check_same_thread=False)
    locks = []

    def lock(report) -> None:
        if report.step in {3, report.steps}:
            other.execute("BEGIN IMMEDIATE")
            locks.append(report.step)
            threading.Timer(2, other.execute, ("ROLLBACK",)).start()

    start = time.monotonic()
    finished = library.run(lock)
    other.close()
    assert (finished.number, locks) == (1, [3, 12])
    assert time.monotonic() - start > 4
    assert shop.leftovers() == []


class StopAt:
    """Asks to stop after so many steps."""

    def __init__(self, step: int) -> None:
        self.requested, self._left = False, step

    def __call__(self, report) -> None:
        """Count a step."""
        self._left -= 1
        self.requested = self._left <= 0

    def check(self) -> None:
        """As the real one."""
        if self.requested:
            raise Interrupted(signal.SIGTERM)


@pytest.mark.parametrize(("method", "owned"), [("grcl", "method.bank"), ("guarded", "method.labels")])
def test_the_method_is_the_same_after_stops(shop, monkeypatch, night, tmp_path, method, owned):
    """Stopped after every third step, the last checkpoint has the same weights, tally and bank or labels as undisturbed."""
    monkeypatch.setenv("ADAPTD_METHOD__NAME", method)
    found = []
    for stops in (False, True):
        library = Library(shop.copy(tmp_path / str(stops)), monkeypatch, night)
        last = {}

        def look(report, library=library, last=last) -> None:
            if report.step == report.steps:
                with library.store.reading() as tx:
                    newest = tx.checkpoints.list_for(library.episode.id)[0]
                state = read_checkpoint(library.project.state / newest.path, newest.sha256)
                last["tensors"] = {name: value.numpy().tobytes() for name, value in state.tensors.items()}
                tally = {name: value for name, value in state.facts["tally"].items() if "seconds" not in name}
                last["facts"] = json.dumps(state.facts | {"tally": tally})

        attempts = 0
        while True:
            stop = StopAt(3) if stops else None

            def show(report, stop=stop, look=look) -> None:
                look(report)
                if stop:
                    stop(report)

            try:
                attempts += 1
                library.run(show, stop)
                break
            except Interrupted:
                with library.store.reading() as tx:
                    library.episode = tx.episodes.get(library.episode.id)
        found.append(last)
        assert attempts == (5 if stops else 1)
    assert {"theta", owned} <= set(found[0]["tensors"])
    assert found[0] == found[1]
