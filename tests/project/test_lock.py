"""Locks that nobody else can hold, and that say for whom they wait.

ADAPTD_STARTS sets how many start at once; `make faults` starts 50.
"""

import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adaptd.project.lock import LOCK_FILE, PUBLISHING_FILE
from tests.conftest import REPOSITORY, Shop

STRANGER = 65534
STARTS = int(os.environ.get("ADAPTD_STARTS", "8"))

ENV = {"ADAPTD_METRICS__PORT": "0", "ADAPTD_INTAKE__MIN_FREE_BYTES": "0", "ADAPTD_LOGGING__FORMAT": "human"}


def mode(path: Path) -> int:
    """Who may do what."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def old_shop(empty_shop: Shop) -> Iterator[Shop]:
    """A project as older versions made it, where others can reach it: everybody may look into its state folder."""
    root = Path(tempfile.mkdtemp(prefix="adaptd-lock-"))
    root.chmod(0o755)
    shop = empty_shop.copy(root / "shop")
    for folder in (shop.root, shop.state):
        folder.chmod(0o755)
    for name in (LOCK_FILE, PUBLISHING_FILE):
        (shop.state / name).touch()
        (shop.state / name).chmod(0o644)
    yield shop
    shutil.rmtree(root)


@pytest.fixture
def stranger(old_shop: Shop) -> Iterator[None]:
    """Another user who holds both locks."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be another user for a while")
    daemon, publishing = (["flock", "--no-fork", str(old_shop.state / name)] for name in (LOCK_FILE, PUBLISHING_FILE))
    command = [*daemon, *publishing, "sh", "-c", "echo held; exec sleep 300"]
    process = subprocess.Popen(command, user=STRANGER, stdout=subprocess.PIPE, text=True, cwd="/")
    assert process.stdout.readline() == "held\n"
    yield
    process.kill()
    process.wait()


def start(shop: Shop, *words: str) -> subprocess.Popen[str]:
    """`adaptd run`, or another command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTD_")}
    command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(shop.root), *(words or ["run"])]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=kept | ENV | {"PYTHONPATH": str(REPOSITORY)})


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """What it says, up to the line with these words."""
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def test_a_new_project_is_private(empty_shop):
    """Folder and files, from the first moment on."""
    assert mode(empty_shop.state) == 0o700
    empty_shop.does("run", "--drain", env=ENV)
    assert [mode(empty_shop.state / name) for name in (LOCK_FILE, PUBLISHING_FILE)] == [0o600, 0o600]


def test_an_older_project_is_corrected(old_shop):
    """At the start, and the log says so, once."""
    said = old_shop.does("run", "--drain", env=ENV).stderr
    assert "was open to other users (mode 0755): now it is ours alone" in said
    assert mode(old_shop.state) == 0o700
    assert [mode(old_shop.state / name) for name in (LOCK_FILE, PUBLISHING_FILE)] == [0o600, 0o600]
    assert "open to other users" not in old_shop.does("run", "--drain", env=ENV).stderr


def test_another_user_holds_nobody_up(old_shop, stranger):
    """Locks that a stranger took while that was possible are replaced, and the daemon starts."""
    daemon = start(old_shop)
    try:
        assert "replaced" in read_until(daemon, "watching")
        assert old_shop.status()["daemon"]["pid"] == daemon.pid
        assert "is working on" in old_shop.refuses("run", env=ENV)
    finally:
        daemon.terminate()
    assert daemon.wait(20) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0)])
def test_waiting_is_said_and_ends_on_a_signal(empty_shop, number, code):
    """Whoever puts versions together holds the daemon's start up: it says for whom it waits, and stops at once."""
    path = empty_shop.state / PUBLISHING_FILE
    with path.open("w") as held:
        path.chmod(0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        command = start(empty_shop)
        try:
            said = read_until(command, "waiting for")
            assert f"waiting for pid {os.getpid()} which holds {path}" in said
            command.send_signal(number)
            begin = time.monotonic()
            assert command.wait(20) == code
            assert time.monotonic() - begin < 5
        finally:
            command.kill()


def test_a_command_that_waits_ends_too(empty_shop):
    """`rollback` has nothing to put in order, and says by which signal it ended."""
    path = empty_shop.state / PUBLISHING_FILE
    with path.open("w") as held:
        path.chmod(0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        command = start(empty_shop, "rollback")
        try:
            read_until(command, "waiting for pid")
            command.send_signal(signal.SIGTERM)
            assert command.wait(20) == 143
        finally:
            command.kill()


def test_many_start_at_once(empty_shop):
    """One works; the others cost little, say who it is, exit 1 and leave nothing."""
    before = sorted(empty_shop.root.rglob("*"))
    begin = time.monotonic()
    processes = [start(empty_shop) for _ in range(STARTS)]
    try:
        ends: dict[int, tuple[int, float]] = {}
        while len(ends) < STARTS - 1:
            for process in processes:
                pid, status, usage = (0, 0, None) if process.pid in ends else os.wait4(process.pid, os.WNOHANG)
                if usage is not None and pid:
                    ends[pid] = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
            assert time.monotonic() - begin < 10 * STARTS
            time.sleep(0.01)
        (winner,) = [process for process in processes if process.pid not in ends]
        losers = [process for process in processes if process.pid in ends]
        assert {code for code, _ in ends.values()} == {1}
        assert all("working on" in process.stderr.read() for process in losers)
        assert max(seconds for _, seconds in ends.values()) < 2
        read_until(winner, "watching")
        new = {path.name for path in set(empty_shop.root.rglob("*")) - set(before)}
        assert new <= {LOCK_FILE, PUBLISHING_FILE, "adaptd.db-wal", "adaptd.db-shm"}
        winner.terminate()
        assert winner.wait(30) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
