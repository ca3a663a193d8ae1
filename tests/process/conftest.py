"""The real daemon in a process of its own: started, watched through its log, its files and /proc, stopped, killed."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FAST, REPOSITORY, Once, Shop

SECONDS = 90
"""What takes longer hangs."""

QUICK = FAST | {
    "ADAPTD_INTAKE__SETTLE_SECONDS": "0.5",
    "ADAPTD_INTAKE__MIN_FREE_BYTES": "0",
    "ADAPTD_METRICS__PORT": "0",
    "ADAPTD_MODEL__BACKBONE": "lenet5",
}
MANUAL = {"ADAPTD_INTAKE__TRIGGER": "manual"}
"""Images are imported, nothing is trained."""
LONG = {"ADAPTD_TRAINING__EPOCHS": "150", "ADAPTD_TRAINING__CHECKPOINT_SECONDS": "0.1"}
"""Long enough to do something meanwhile."""


def wait_until(condition: Callable[[], Any], what: str = "it", seconds: float = SECONDS) -> Any:
    """What the condition gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.01)
    return found


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a process that stands still was sent a signal."""
    pending = Path(f"/proc/{pid}/status").read_text().partition("ShdPnd:")[2].split()[0]
    return bool(int(pending, 16) >> (number - 1) & 1)


def warned(shop: Shop, word: str) -> bool:
    """Whether the status is degraded and says this."""
    said = shop.status()["daemon"]
    return said["state"] == "degraded" and any(word in warning for warning in said["warnings"])


class Daemon:
    """`adaptd run` on a project."""

    def __init__(
        self,
        shop: Shop,
        log: Path,
        *words: str,
        env: dict[str, str | None] | None = None,
        user: int | None = None,
        around: Sequence[str] = (),
        python: str = sys.executable,
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTD_")}
        settings = kept | {"PYTHONPATH": str(REPOSITORY)} | QUICK | (env or {})
        command = [*around, python, "-m", "adaptd.cli.main", "--project", str(shop.root), "run", *words]
        if user is not None:
            # It may read everything, as our interpreter may lie in a closed home, and write only what is its own.
            caps = "-all,+dac_read_search"
            lower = [f"--inh-caps={caps}", f"--ambient-caps={caps}", f"--bounding-set={caps}"]
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *lower, *command]
        self.shop, self.log = shop, log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                env={name: value for name, value in settings.items() if value is not None},
                start_new_session=True,
            )
        self.pid = self.process.pid

    def lines(self, message: str = "") -> list[dict[str, Any]]:
        """What it and its workers logged; all of it, or what has this in its message."""
        found = []
        for line in self.log.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [line for line in found if message in line["message"]]

    def hear(self, message: str, count: int = 1, **extras: object) -> dict[str, Any]:
        """Wait for a log line, for the count-th of its kind."""

        def heard() -> dict[str, Any] | None:
            fitting = [line for line in self.lines(message) if extras.items() <= line.items()]
            assert len(fitting) >= count or self.process.poll() is None, self.log.read_text()
            return fitting[count - 1] if len(fitting) >= count else None

        return wait_until(heard, f"{message!r}\n{self.log.read_text()}")

    def training(self, steps: int = 1) -> int:
        """Wait until an episode has made some steps; its worker."""
        reached = f"SELECT count(*) FROM checkpoints WHERE step >= {steps}"
        return wait_until(lambda: self.shop.rows(reached) != [(0,)] and self.worker("episode"), "training")

    def hold(self, steps: int = 1) -> int:
        """As `training`, and the worker stands still from then on, until `SIGCONT`."""
        worker = self.training(steps)
        while True:
            os.kill(worker, signal.SIGSTOP)
            # Not in the middle of a write, which would keep everybody else from the database.
            with contextlib.closing(sqlite3.connect(self.shop.state / "adaptd.db", timeout=0.05)) as database:
                try:
                    database.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    os.kill(worker, signal.SIGCONT)
                    continue
            assert self.shop.rows("SELECT count(*) FROM episodes WHERE state = 'training'") == [(1,)], "it is over"
            return worker

    def worker(self, kind: str) -> int:
        """The worker of a kind, 0 where there is none."""
        for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if b"adaptd.daemon.worker" in words and kind.encode() in words:
                    return int(child)
        return 0

    def domains(self) -> dict[str, str]:
        """Domains and their states."""
        return dict(self.shop.rows("SELECT name, state FROM domains WHERE name != 'source'"))

    def until(self, **states: str) -> None:
        """Wait until domains are in these states."""
        wait_until(lambda: states.items() <= self.domains().items() or self._must_live(), f"{states}, but {self.domains()}")

    def _must_live(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return False

    def memory(self) -> int:
        """The most it ever held, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def cpu_seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """As the machine's reset button: the whole group at once, without a word."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Wait for its own end; the exit code."""
        return self.process.wait(SECONDS)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; the exit code."""
        self.process.send_signal(number)
        return self.end()


StartDaemon = Callable[..., Daemon]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartDaemon]:
    """Starts daemons; those of one test write one log. None survives its test."""
    started: list[Daemon] = []

    def start_one(shop: Shop, *words: str, log: str = "log", **options: Any) -> Daemon:
        started.append(Daemon(shop, tmp_path / log, *words, **options))
        return started[-1]

    yield start_one
    for daemon in started:
        daemon.kill()


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Writes down what a long run measured, where ADAPTD_FAULTS names a file."""

    def write(**values: object) -> None:
        if file := os.environ.get("ADAPTD_FAULTS"):
            with Path(file).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"test": request.node.nodeid} | values) + "\n")

    return write


@pytest.fixture
def drop(tmp_path: Path) -> Callable[[Path, Path], Path]:
    """Moves a copy of a folder into an inbox, whole at once."""

    def dropped(folder: Path, target: Path) -> Path:
        staged = tmp_path / f"staged-{time.monotonic_ns()}"
        shutil.copytree(folder, staged, symlinks=True)
        staged.rename(target)
        return target

    return dropped


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory, paint: Callable[..., Path]) -> Callable[[int], Path]:
    """Domains of 30 images each by number, with a labelled test set."""

    def domain(number: int) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"pictures-{number}"
        if not folder.exists():
            paint(folder, 10, seed=100 + number, shift=20 * number, flat=True)
            paint(folder / "_test", 3, seed=500 + number, shift=20 * number)
        return folder

    return domain


@pytest.fixture(scope="session")
def reference(
    _trained_shop: Shop, pictures: Callable[[int], Path], once: Once
) -> Callable[[Shop], tuple[int, list[tuple[Any, ...]]]]:
    """Asserts that a LONG episode on pictures 0 ended as in an undisturbed run; its attempts, and what befell its workers."""

    def fill(root: Path) -> None:
        _trained_shop.copy(root).does("adapt", pictures(0), "--domain", "camera", env=QUICK | LONG)

    calm = Shop(once("calm", fill), _trained_shop.zygote)
    weights = "SELECT weights_sha256 FROM versions WHERE version = 2"

    def compare(shop: Shop) -> tuple[int, list[tuple[Any, ...]]]:
        assert shop.rows(weights) == calm.rows(weights)
        some = "WHERE version <= 2 AND domain_id <= 2 ORDER BY version, domain_id, kind"
        matrix = f"SELECT version, domain_id, kind, value FROM accuracies {some}"
        assert shop.rows(matrix) == calm.rows(matrix)
        assert calm.rows("SELECT count(*) FROM versions") == [(2,)]
        ((attempts,),) = shop.rows("SELECT attempts FROM episodes WHERE number = 1")
        return attempts, shop.rows("SELECT kind FROM events WHERE kind LIKE 'worker-%' ORDER BY id")

    return compare
