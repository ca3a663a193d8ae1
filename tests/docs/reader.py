"""Somebody who follows a page: a home with pictures, and a bash into which commands are typed one by one."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import FAST, REPOSITORY

SECONDS = 120
"""What takes longer hangs."""
SMALL = FAST | {
    "ADAPTD_MODEL__BACKBONE": "lenet5",
    "ADAPTD_MODEL__WEIGHTS": "",
    "ADAPTD_SOURCE__EPOCHS": "20",
    "ADAPTD_TRAINING__CHECKPOINT_SECONDS": "60",
    "ADAPTD_INTAKE__SETTLE_SECONDS": "0.5",
    "ADAPTD_INTAKE__MIN_FREE_BYTES": "0",
}


class Reader:
    """At a terminal, in a home of their own; the pages' ports become free ones."""

    def __init__(self, home: Path) -> None:
        self.home, self.said = home, ""
        self.ports = {"8080": _free_port(), "9109": _free_port()}
        programs = home / "bin"
        programs.mkdir()
        (programs / "adaptd").write_text(f'#!/bin/sh\nexec {sys.executable} -m adaptd.cli.main "$@"\n')
        (programs / "adaptd").chmod(0o755)
        ports = {"ADAPTD_SERVING__PORT": self.ports["8080"], "ADAPTD_METRICS__PORT": self.ports["9109"]}
        place = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY), "no_proxy": "*"}
        self._environment = {**os.environ, **SMALL, **ports, **place, "NO_COLOR": "1", "COLUMNS": "200"}
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=home,
            env=self._environment,
            start_new_session=True,
        )

    def types(self, line: str) -> str:
        """A command, which must work; what it printed, and what others in the background said meanwhile."""
        for written, port in self.ports.items():
            line = line.replace(written, port)
        # Not every answer ends with a line's end.
        self._shell.stdin.write(f"{line}\ncode=$?; echo; echo done: $code\n")
        self._shell.stdin.flush()
        watchdog = threading.Timer(SECONDS, self.closes)
        watchdog.start()
        self.said += f"$ {line}\n"
        before = len(self.said)
        while not (answer := self._shell.stdout.readline()).startswith("done: "):
            assert answer, f"it took too long: {self.said}"
            self.said += answer
        watchdog.cancel()
        assert answer == "done: 0\n", self.said
        heard = self.said[before:]
        self._wait_after(line)
        return heard

    def _wait_after(self, line: str) -> None:
        """A person goes on when the daemon is there, when nothing is left to do, when the server answers."""
        if line == "adaptd run &":
            self._wait_for(lambda: self.status()["daemon"]["running"])
        if line == "adaptd status --watch":
            self._wait_for(self._is_all_done)
        if line.startswith("adaptd serve"):
            self._wait_for(lambda: _answers(f"http://127.0.0.1:{self.ports['8080']}/v2/health/ready"))

    def status(self) -> dict[str, Any]:
        """What `adaptd status --json` says of the project at home."""
        command = [sys.executable, "-m", "adaptd.cli.main", "--project", self.home / "shop", "status", "--json"]
        run = subprocess.run(command, capture_output=True, text=True, env=self._environment, check=True)
        found: dict[str, Any] = json.loads(run.stdout)
        return found

    def leaves(self) -> None:
        """What still runs in the background is stopped in order, and waited for."""
        self.types("kill $(jobs -p) && wait")

    def closes(self) -> None:
        """The terminal, with all that is in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()

    def _is_all_done(self) -> bool:
        """Whether everything that was dropped has become a version, or was refused as one."""
        waiting = list((self.home / "shop" / "inbox").iterdir())
        return not waiting and {item["state"] for item in self.status()["queue"]} == {"done"}

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)


def _free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False
