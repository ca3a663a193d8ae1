"""Fixtures for all tests: real projects, commands in processes that start fast, small pictures, real databases."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import jsonschema
import numpy as np
import pytest
from PIL import Image

from adaptd.store.migrate import upgrade

REPOSITORY = Path(__file__).resolve().parents[1]
SCHEMA = json.loads((REPOSITORY / "docs" / "schemas" / "status.json").read_text())
Adaptd = Callable[..., subprocess.CompletedProcess[str]]

# How long an example takes is the machine's business.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


LONG_FILES = ("tests/process/", "tests/faults/", "tests/docs/test_commands", "tests/cli/test_demo", "tests/test_wheel")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first, so that no core waits for another at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_FILES))


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No ADAPTD_SECTION__KEY of the person running the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ADAPTD_") and "__" in name]:
        monkeypatch.delenv(name)


@pytest.fixture
def adaptd(zygote: "Zygote") -> Adaptd:
    """Run the command line in a process of its own, with the settings that everybody has."""

    def run(*words: object, env: dict[str, str] | None = None, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
        return zygote.start(*words, env=env, cwd=cwd, settings={}).wait()

    return run


@pytest.fixture
def adaptd_from_the_start() -> Adaptd:
    """The same in an interpreter that starts and ends like any other."""

    def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "adaptd.cli.main", *map(str, words)]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1"} | options.pop("env", {})
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, env=env, **options)

    return run


@pytest.fixture
def project(once: "Once", adaptd: Adaptd, tmp_path: Path) -> Path:
    """A fresh project folder, made by `adaptd init`."""

    def fill(root: Path) -> None:
        run = adaptd("init", root, "--backbone", "lenet5")
        assert run.returncode == 0, run.stderr

    return Path(shutil.copytree(once("project", fill), tmp_path / "shop"))


def _postgres_folder() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(p) for p in [shutil.which("initdb")] if p]
    return found[-1].resolve().parent if found else None


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server of our own, reached through a socket; skips where it is not installed."""
    programs = _postgres_folder()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # PostgreSQL refuses to run as root, and its socket's path must be short.
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path(
        subprocess.run(["mktemp", "-d", "/tmp/adaptd-pg.XXXXXX"], capture_output=True, text=True, check=True).stdout.strip()
    )
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    as_user = {"user": user, "cwd": folder} if os.geteuid() == 0 else {"cwd": folder}
    subprocess.run([programs / "initdb", "-D", "data", "-U", "tester", "-A", "trust"], check=True, capture_output=True, **as_user)
    quiet = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", f"unix_socket_directories={folder}"]
    server = subprocess.Popen([programs / "postgres", "-D", "data", *quiet], stderr=subprocess.DEVNULL, **as_user)
    try:
        _wait_for(lambda: subprocess.run([programs / "pg_isready", "-q", "-h", folder], check=False).returncode == 0)
        yield f"postgresql://tester@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)  # fast: connections that a failed test left open do not matter
        server.wait(30)
        shutil.rmtree(folder)


def _wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.05)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without tables, on each engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'adaptd.db'}"
    import psycopg

    server: str = request.getfixturevalue("postgres")
    name = f"t{time.monotonic_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def address(empty_address: str, tmp_path: Path) -> str:
    """The address of an empty database of this revision, on each engine."""
    upgrade(empty_address, tmp_path / "backups")
    return empty_address


FAST = {
    "ADAPTD_TRAINING__CHECKPOINT_SECONDS": "0",
    "ADAPTD_TRAINING__THREADS": "1",
    "ADAPTD_TRAINING__BATCH_SIZE": "40",
    "ADAPTD_SOURCE__BATCH_SIZE": "32",
    "ADAPTD_SOURCE__EPOCHS": "6",
    "ADAPTD_SOURCE__LEARNING_RATE": "0.01",
    "ADAPTD_TRAINING__EPOCHS": "6",
    "ADAPTD_MODEL__IMAGE_SIZE": "16",
    "ADAPTD_MODEL__PROJECTOR_HIDDEN": "16",
    "ADAPTD_MEMORY__IMAGES_PER_DOMAIN": "20",
    "ADAPTD_METHOD__GUARDED__PATIENCE": "0",
    "ADAPTD_GATE__ESTIMATES": "ignore",
    "OMP_NUM_THREADS": "1",
}
"""Small and quick: a checkpoint after every step, few steps but all of them, one thread. Estimates on few images are ignored."""


@dataclasses.dataclass
class Process:
    """A running command."""

    zygote: "Zygote"
    pid: int
    folder: Path

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Until it ends; a signal's number is negative."""
        code = self.zygote.ask({"wait": self.pid})
        out, err = ((self.folder / name).read_text() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess([], code, out, err)

    def signal(self, number: int) -> None:
        """To the whole group, as a terminal does; decoders ignore it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """At once; its decoders end when their input does."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def is_running(self) -> bool:
        """Neither ended nor waiting to be asked for."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False


class Zygote:
    """Forks commands from a process that has imported everything."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(REPOSITORY / "tests" / "zygote.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def ask(self, order: dict[str, Any]) -> int:
        """One order, one answer."""
        self._process.stdin.write(json.dumps(order).encode())
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(
        self,
        *words: object,
        env: dict[str, str] | None = None,
        cwd: Path = REPOSITORY,
        stopped: bool = False,
        settings: dict[str, str] = FAST,
        seconds: int = 90,
    ) -> Process:
        """Start a command and go on; `stopped`, it does not begin before SIGCONT. What takes more seconds hangs, and is ended."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        for name in ("stdout", "stderr"):
            (folder / name).touch()  # it may be killed before it gets to that
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTD_")}
        environment = {**kept, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1", "COLUMNS": "200", **settings, **(env or {})}
        order = {
            "words": [str(word) for word in words],
            "env": environment,
            "cwd": str(cwd),
            "stopped": stopped,
            "seconds": seconds,
        }
        pid = self.ask(order | {"stdout": str(folder / "stdout"), "stderr": str(folder / "stderr")})
        return Process(self, pid, folder)

    def run(self, *words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self.start(*words, env=env).wait()

    def close(self) -> None:
        """End it."""
        self._process.stdin.close()
        self._process.wait(30)


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """One for all tests."""
    zygote = Zygote(tmp_path_factory.mktemp("commands"))
    yield zygote
    zygote.close()


Paint = Callable[..., Path]


@pytest.fixture(scope="session")
def paint() -> Paint:
    """Write small pictures of the classes a, b, c …: a bright bar whose place says which."""

    def painted(folder: Path, count: int, seed: int, *, classes: str = "abc", shift: int = 0, flat: bool = False) -> Path:
        noise = np.random.default_rng(seed)
        for place, name in enumerate(classes):
            for number in range(count):
                pixels = noise.integers(0, 60, (16, 16, 3))
                pixels[:, 5 * place : 5 * place + 5, place % 3] += 150
                path = folder / (f"{name}-{seed}-{number:03}.png" if flat else f"{name}/{seed}-{number:03}.png")
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(np.clip(pixels + shift, 0, 255).astype(np.uint8)).save(path)
        return folder

    return painted


@pytest.fixture(scope="session")
def source(once: "Once", paint: Paint) -> Path:
    """A labelled source of three classes with 20 images each; the same folder for all jobs, as are projects made from it."""
    return once("source", lambda root: paint(root / "photos", 20, seed=0)) / "photos"


@pytest.fixture(scope="session")
def night(once: "Once", paint: Paint) -> Path:
    """A domain of 60 images with a labelled test set, a file that is no image, and one image twice."""

    def fill(root: Path) -> None:
        folder = paint(root / "night", 20, seed=1, shift=30, flat=True)
        paint(folder / "_test", 4, seed=2, shift=30)
        (folder / "broken.jpg").write_bytes(b"no image")
        (folder / "twin.png").write_bytes((folder / "a-1-000.png").read_bytes())

    return once("night", fill) / "night"


@dataclasses.dataclass
class Shop:
    """A project, its commands, and what they leave."""

    root: Path
    zygote: Zygote

    @property
    def state(self) -> Path:
        """Its state folder."""
        return self.root / "state"

    def start(self, *words: object, **options: Any) -> Process:
        """A command on this project."""
        return self.zygote.start("--project", self.root, *words, **options)

    def run(self, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """A command on this project, to its end."""
        return self.start(*words, **options).wait()

    def does(self, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """A command that must work."""
        run = self.run(*words, **options)
        assert run.returncode == 0, run.stderr
        return run

    def refuses(self, *words: object, code: int = 1, **options: Any) -> str:
        """A command that must fail with one clear line, which is returned; the project stays usable."""
        run = self.run(*words, **options)
        assert run.returncode == code, (run.returncode, run.stdout, run.stderr)
        assert "Traceback" not in run.stderr
        errors = [line for line in run.stderr.splitlines() if line.startswith("adaptd: ")]
        assert len(errors) == 1, run.stderr
        self.status()
        return errors[0]

    def status(self) -> dict[str, Any]:
        """`status --json`, checked against its schema."""
        document = json.loads(self.does("status", "--json").stdout)
        jsonschema.validate(document, SCHEMA)
        return document

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database says."""
        with contextlib.closing(sqlite3.connect(self.state / "adaptd.db", timeout=30)) as database:
            return database.execute(query).fetchall()

    def leftovers(self) -> list[str]:
        """Files and folders that nothing in the store accounts for."""
        wanted = {"adaptd.db", "adaptd.db-wal", "adaptd.db-shm", "daemon.lock", "cache", "memory", "weights", "checkpoints"}
        wanted |= {"insights"} | {f"insights/{e}.json" for (e,) in self.rows("SELECT episode_id FROM versions")}
        wanted |= {"staging", "staging/shop", "staging/shop-int8", "publishing.lock"}
        wanted |= {path for (path,) in self.rows("SELECT weights_path FROM versions")}
        wanted |= {path for (path,) in self.rows("SELECT path FROM checkpoints")}
        wanted |= {f"checkpoints/{episode}" for (episode,) in self.rows("SELECT episode_id FROM checkpoints")}
        wanted |= {f"cache/{d}-{b}-{s}" for d, b, s in self.rows("SELECT DISTINCT domain_id, delivery, split FROM images")}
        newest = "SELECT domain_id, max(id) FROM episodes WHERE report ->> 'memory_images' > 0 GROUP BY domain_id"
        wanted |= {f"memory/{d}-{e}" for d, e in self.rows(newest)}
        begun = "SELECT id FROM episodes WHERE state IN ('queued', 'training')"
        wanted |= {"activations"} | {f"activations/{episode}" for (episode,) in self.rows(begun)}
        wanted |= {"checks"} | {f"checks/{path.name}" for path in (self.state / "checks").glob("*.safetensors")}
        inside = ("index.json", "pixels.u8", "facts.json", "tensors.safetensors")
        kept = [path for path in self.state.rglob("*") if path.name not in inside and path.suffix != ".f16"]
        found = {str(path.relative_to(self.state)) for path in kept}
        return sorted(found - wanted)

    def published(self) -> dict[int, str]:
        """What a server that reads the models folder would find, with the hash of each."""
        folders = [path for path in (self.root / "models" / "shop").iterdir() if path.name != "config.pbtxt"]
        return {int(f.name): hashlib.sha256((f / "model.onnx").read_bytes()).hexdigest() for f in folders}

    def copy(self, root: Path) -> "Shop":
        """The same elsewhere: a project can be moved."""
        shutil.copytree(self.root, root)
        return Shop(root, self.zygote)


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Makes a project for all jobs of a run: the first that needs it makes it, the others wait. It is only to be copied."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder = shared / f"once-{name}"
        with (shared / f"once-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                unfinished = Path(tempfile.mkdtemp(prefix=f"once-{name}-", dir=shared))
                fill(unfinished / "shop")
                unfinished.rename(folder)
        return folder / "shop"

    return make


@pytest.fixture(scope="session")
def _new_shop(once: Once, zygote: Zygote) -> Shop:
    def fill(root: Path) -> None:
        run = zygote.run("init", root, "--backbone", "lenet5")
        assert run.returncode == 0, run.stderr

    return Shop(once("new", fill), zygote)


@pytest.fixture(scope="session")
def _trained_shop(once: Once, _new_shop: Shop, source: Path) -> Shop:
    return Shop(once("trained", lambda root: _new_shop.copy(root).does("source", "import", source)), _new_shop.zygote)


@pytest.fixture(scope="session")
def _adapted_shop(once: Once, _trained_shop: Shop, night: Path) -> Shop:
    return Shop(once("adapted", lambda root: _trained_shop.copy(root).does("adapt", night)), _trained_shop.zygote)


@pytest.fixture
def empty_shop(_new_shop: Shop, tmp_path: Path) -> Shop:
    """A project without a source."""
    return _new_shop.copy(tmp_path / "shop")


@pytest.fixture
def shop(_trained_shop: Shop, tmp_path: Path) -> Shop:
    """A project with a trained source."""
    return _trained_shop.copy(tmp_path / "shop")


@pytest.fixture
def adapted_shop(_adapted_shop: Shop, tmp_path: Path) -> Shop:
    """A project that has adapted to the night, undisturbed."""
    return _adapted_shop.copy(tmp_path / "shop")
