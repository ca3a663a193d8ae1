"""The fault matrix of docs/reliability.md. `make test` runs each fault a few times, `make faults` as often as the matrix asks.

ADAPTD_FAULTS names the file that takes the figures of a long run, a line of JSON each. There are two users who are not root: one
whose files adaptd works with, and one who may write the inbox and means harm.
"""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import REPOSITORY, Shop
from tests.process.conftest import QUICK, SECONDS, drop, figures, pictures, reference, start, wait_until  # noqa: F401 (fixtures)

OWNER, STRANGER = 65533, 65534
SWAPS = int(os.environ.get("ADAPTD_SWAPS", "1000"))
"""Swaps that every attack has to make; `make faults` asks for many."""

SWAP = """
    import ctypes, os, signal, sys
    exchange, stopped, swaps = ctypes.CDLL(None).renameat2, [], 0
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    folder, one, other = os.open(sys.argv[1], os.O_RDONLY), os.fsencode(sys.argv[2]), os.fsencode(sys.argv[3])
    print("ready", flush=True)
    while not stopped:
        swaps += exchange(folder, one, folder, other, 2) == 0
    print(swaps, flush=True)
"""


LIBRARIES = f"{REPOSITORY}:{sysconfig.get_path('purelib')}"
"""For PYTHONPATH: an interpreter beside the virtual environment finds what is in it."""


def as_user(user: int) -> dict[str, Any]:
    """What `subprocess` has to be told to run as another user."""
    return {"user": user, "group": user, "extra_groups": [], "cwd": "/"}


@functools.cache
def find_python() -> str | None:
    """An interpreter that another user may run: ours may lie in a home that is closed to others."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        with contextlib.suppress(OSError):
            if not subprocess.run([python, "-c", ""], check=False, capture_output=True, **as_user(STRANGER)).returncode:
                return python
    return None


def run_as(user: int, program: str, *words: object) -> subprocess.Popen[str]:
    """A Python program of another user, with adaptd at hand."""
    return subprocess.Popen(
        [str(find_python()), "-c", textwrap.dedent(program), *map(str, words)],
        umask=0,
        env={"PYTHONPATH": LIBRARIES, "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **as_user(user),
    )


class Attack:
    """Somebody who exchanges two names in a folder, as fast as the kernel can, until asked how often that was."""

    def __init__(self, folder: Path, one: str, other: str) -> None:
        self._process = run_as(STRANGER, SWAP, folder, one, other)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", self._process.communicate()

    def stop(self) -> int:
        """End it; how many swaps it made."""
        self._process.send_signal(signal.SIGTERM)
        return int(self._process.communicate(timeout=30)[0])

    def kill(self) -> None:
        """At once."""
        self._process.kill()
        self._process.wait()


class Ground:
    """A folder that both users can reach, with an inbox for both and a home for one."""

    def __init__(self, root: Path) -> None:
        self.root, self.inbox, self.state, self.home = root, root / "inbox", root / "state", root / "home"
        for folder, mode in ((self.inbox, 0o777), (self.state, 0o700), (self.home, 0o700)):
            folder.mkdir()
            folder.chmod(mode)
            os.chown(folder, OWNER, OWNER)

    def give(self, user: int, folder: Path, mode: int = 0o777) -> Path:
        """Let a user own a whole tree."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)
            if path.is_dir() and not path.is_symlink():
                path.chmod(mode)
        return folder

    def act(self, program: str, *words: object) -> str:
        """Let the owner do something; what that prints."""
        process = run_as(OWNER, program, *words)
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        return output


@pytest.fixture
def ground() -> Iterator[Ground]:
    """On the disk of the temporary folder."""
    if os.geteuid() != 0:
        pytest.skip("needs two users: run as root")
    if find_python() is None:
        pytest.skip(f"needs an interpreter that other users may run, of the version of {sys.executable}")
    root = Path(tempfile.mkdtemp(prefix="adaptd-faults-"))
    root.chmod(0o755)
    yield Ground(root)
    shutil.rmtree(root)


@pytest.fixture
def attack() -> Iterator[Callable[[Path, str, str], Attack]]:
    """Begins attacks; none survives its test."""
    begun: list[Attack] = []

    def begin(folder: Path, one: str, other: str) -> Attack:
        begun.append(Attack(folder, one, other))
        return begun[-1]

    yield begin
    for one in begun:
        with contextlib.suppress(ProcessLookupError):
            one.kill()


class Client(threading.Thread):
    """Asks a server again and again; what went wrong, and how long each answer took."""

    def __init__(self, url: str, image: bytes) -> None:
        super().__init__(daemon=True)
        self._url, self._image = url, image
        self.seconds: list[float] = []
        self.errors: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Until it is told to stop."""
        with httpx.Client(timeout=SECONDS) as client:
            while not self.over.is_set():
                begun = time.monotonic()
                try:
                    answer = client.post(f"{self._url}/predict", files={"image": self._image})
                    if answer.status_code != 200:
                        self.errors.append(answer.text)
                except httpx.HTTPError as problem:
                    self.errors.append(repr(problem))
                self.seconds.append(time.monotonic() - begun)
                time.sleep(0.005)


@pytest.fixture
def serve(tmp_path: Path, pictures: Callable[[int], Path]) -> Iterator[Callable[[Shop], Client]]:  # noqa: F811 (the fixture)
    """Starts a real server of a project, with a client that asks it all the time."""
    servers: list[subprocess.Popen[bytes]] = []
    clients: list[Client] = []

    def start_one(shop: Shop) -> Client:
        command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(shop.root), "serve", "--port", "0"]
        log = tmp_path / "serve.log"
        with log.open("wb") as out:
            env = os.environ | {"PYTHONPATH": str(REPOSITORY)} | QUICK
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        servers.append(server)
        address = wait_until(lambda: re.search(r"http://[\d.]+:\d+", log.read_text()), "serving")[0]
        client = Client(address, min(pictures(0).glob("*.png")).read_bytes())
        clients.append(client)
        client.start()
        return client

    yield start_one
    for client in clients:
        client.over.set()
        client.join()
    for server in servers:
        server.terminate()
        server.wait(SECONDS)
