"""`adaptd demo` from beginning to end, small; and Ctrl-C in the middle of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

SMALL = {
    "ADAPTD_SOURCE__EPOCHS": "1",
    "ADAPTD_TRAINING__EPOCHS": "1",
    "ADAPTD_TRAINING__THREADS": "1",
    "ADAPTD_METHOD__GUARDED__MIN_AGREEMENT": "0",
    "ADAPTD_METHOD__GUARDED__VIEWS": "1",
    "ADAPTD_INTAKE__SETTLE_SECONDS": "0.5",
    "OMP_NUM_THREADS": "1",
    "NO_COLOR": "1",
}


def start(folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """The command in a session of its own, as in a terminal."""
    pytest.importorskip("mlxtend", reason="the demo needs pip install 'adaptd[demo]'")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTD_")}
    command = [sys.executable, "-m", "adaptd.cli.main", "demo", str(folder)]
    with log.open("wb") as output:
        environment = kept | SMALL | {"PYTHONPATH": str(REPOSITORY)}
        # A shell that starts the tests in the background has them ignore SIGINT, and children inherit that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        finally:
            signal.signal(signal.SIGINT, before)


def find_processes(folder: Path) -> list[str]:
    """Command lines that name the folder."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = line.read_bytes().decode(errors="replace")
            if str(folder) in words and "pytest" not in words:
                found.append(words.replace("\0", " "))
    return found


def wait_for_nobody(folder: Path) -> None:
    """Until no process works there."""
    deadline = time.monotonic() + 60
    while left := find_processes(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.long
def test_it_shows_the_main_job(tmp_path):
    """Source, three drops by the daemon, R, versions, metrics, a served prediction, status; nothing is left running."""
    log = tmp_path / "log"
    demo = start(tmp_path / "demo", log)
    assert demo.wait(240) == 0, log.read_text()
    told = log.read_text()
    for shown in (
        "source import",
        "inbox/",
        "optical",
        "askew",
        "night",
        "ACC",
        "BWT",
        "adaptd_accuracy_ratio",
        "/predict",
        '"label"',
    ):
        assert shown in told
    assert "\033[" not in told, "no colours and no animation in a file"
    assert find_processes(tmp_path / "demo") == []
    assert (tmp_path / "demo" / "matrix.png").read_bytes().startswith(b"\x89PNG")


def wait_for(moment: str, demo: subprocess.Popen[bytes], log: Path) -> None:
    """Until the demo has got that far."""
    deadline = time.monotonic() + 120
    while moment not in log.read_text():
        assert demo.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@pytest.mark.long
def test_a_folder_in_use_is_left_alone(tmp_path, adaptd):
    """Neither beside a demo nor beside the daemon that a killed one left behind does another one take its folder away."""
    folder, log = tmp_path / "demo", tmp_path / "log"
    demo = start(folder, log)
    wait_for("cp -r", demo, log)
    for _ in ("beside it", "beside its daemon"):
        run = adaptd("demo", folder)
        assert (run.returncode, run.stdout) == (1, "")
        assert f"a demo is at work in {folder}: stop it, or name another folder" in run.stderr
        demo.kill()
        demo.wait()
    deadline = time.monotonic() + 60
    while not (pid := json.loads(adaptd("--project", folder / "shop", "status", "--json").stdout)["daemon"]["pid"]):
        assert time.monotonic() < deadline, "its daemon is not there"
    os.kill(pid, signal.SIGTERM)
    wait_for_nobody(folder)


@pytest.mark.long
@pytest.mark.parametrize("moment", ["writing pictures", "source import", "cp -r"])
def test_ctrl_c_leaves_nothing_behind(tmp_path, adaptd, moment):
    """Interrupted anywhere it ends with 130, its processes are gone, and what it made is whole."""
    log = tmp_path / "log"
    demo = start(tmp_path / "demo", log)
    wait_for(moment, demo, log)
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 130, log.read_text()
    assert "Traceback" not in log.read_text()
    wait_for_nobody(tmp_path / "demo")
    shop = tmp_path / "demo" / "shop"
    if (shop / "adaptd.toml").exists():  # written last: before that it is no project yet
        run = adaptd("--project", shop, "fsck")
        assert run.returncode == 0, run.stdout + run.stderr
