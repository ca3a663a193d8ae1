"""Fixtures for all tests: real projects, a real SQLite file, a real PostgreSQL server."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adaptd.store.migrate import upgrade

REPOSITORY = Path(__file__).resolve().parents[1]
Adaptd = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No ADAPTD_SECTION__KEY of the person running the tests reaches them."""
    for name in [name for name in os.environ if name.startswith("ADAPTD_") and "__" in name]:
        monkeypatch.delenv(name)


@pytest.fixture
def adaptd() -> Adaptd:
    """Run the real command line in a process of its own."""

    def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "adaptd.cli.main", *map(str, words)]
        options = {"capture_output": True, "text": True, "timeout": 120} | options
        options["env"] = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1", **options.get("env", {})}
        return subprocess.run(command, check=False, **options)

    return run


@pytest.fixture
def project(tmp_path: Path, adaptd: Adaptd) -> Path:
    """A fresh project folder, made by `adaptd init`."""
    folder = tmp_path / "shop"
    run = adaptd("init", folder, "--backbone", "lenet5")
    assert run.returncode == 0, run.stderr
    return folder


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
