"""`adaptd rollback` killed at every call that makes something last, watched by somebody who reads the folder like Triton."""

import hashlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adaptd.care.fsck import check_project
from adaptd.errors import VersionDamaged
from adaptd.project.layers import load_project
from adaptd.publishing.card import read_card
from adaptd.publishing.triton import read_version

KEEP = {"ADAPTD_EXPORT__KEEP_VERSIONS": "2"}
"""An old version is to be taken out at the end."""
PAUSE_SECONDS = 0.001
"""Between two looks: who never paused would take a core from those who are killed."""
TWIN = {"ADAPTD_EXPORT__QUANTIZE": "true", "ADAPTD_EXPORT__QUANTIZED_MAX_LOSS": "1"}


def look(folder: Path) -> str | None:
    """What is wrong with the version that Triton would load now; it counts everything in the folder."""
    if not folder.is_dir():
        return None
    names = [path.name for path in folder.iterdir() if path.name != "config.pbtxt"]
    odd = [name for name in names if str(read_version(name)) != name]
    if odd:
        return f"{odd} in {folder}"
    if not names:
        return None
    latest = folder / max(names, key=int)
    try:
        model = (latest / "model.onnx").read_bytes()
        if read_card(latest).model_sha256 != hashlib.sha256(model).hexdigest() or not (folder / "config.pbtxt").is_file():
            return f"{latest} is not what was proven"
    except (OSError, VersionDamaged) as problem:
        return str(problem)
    return None


@contextmanager
def watching(models: Path) -> Iterator[list[str]]:
    """What was wrong, in all looks during a block and one after it."""
    bad: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(PAUSE_SECONDS):
            bad.extend(problem for folder in (models / "shop", models / "shop-int8") if (problem := look(folder)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield bad
    finally:
        over.set()
        watcher.join()


def roll_back(shop, settings: dict[str, str], call: str, nth: int) -> int:
    """Run it, killed as it enters a call for the nth time; its exit code."""
    process = shop.start("rollback", env=settings, stopped=True)
    # Traced before it stops itself, it would miss the signal to go on.
    while "State:\tT" not in Path(f"/proc/{process.pid}/status").read_text():
        time.sleep(0.001)
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={nth}"]
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", *inject, "-p", str(process.pid)], stderr=subprocess.PIPE)
    while "TracerPid:\t0" in Path(f"/proc/{process.pid}/status").read_text():
        assert tracer.poll() is None, tracer.stderr.read()
        time.sleep(0.01)
    process.signal(signal.SIGCONT)
    code = process.wait().returncode
    tracer.wait(30)
    tracer.stderr.close()
    return code


def settle(shop) -> None:
    """The next command finishes what was begun, and then store and folder agree."""
    assert "there is no version 99" in shop.run("promote", 99).stderr
    promoted = dict(shop.rows("SELECT version, model_sha256 FROM versions WHERE state = 'promoted'"))
    assert shop.published() == promoted
    assert check_project(load_project(shop.root, environ={})) == ()
    assert shop.leftovers() == []


@pytest.mark.parametrize(
    ("call", "settings", "served"),
    [("fsync,fdatasync", KEEP, {2, 3}), pytest.param("?rename,?renameat", KEEP | TWIN, {3}, marks=pytest.mark.long)],
)
def test_killed_anywhere_nothing_bad_is_shown(adapted_shop, tmp_path, call, settings, served):
    """The watcher never meets a partial or unproven version, the next command recovers, and then all is well."""
    if shutil.which("strace") is None or subprocess.run(["strace", "-qq", "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not installed or may not trace: apt-get install strace")
    outcomes = []
    for nth in range(1, 60):
        shop = adapted_shop.copy(tmp_path / f"shop-{nth}")
        with watching(shop.root / "models") as bad:
            code = roll_back(shop, settings, call, nth)
            settle(shop)
        assert bad == [], f"{call} {nth}"
        assert code in {0, -signal.SIGKILL}
        outcomes.append(max(shop.published()))
        if code == 0:
            break
    # Kills before the commit change nothing, those after it are made up for. All renames come after it.
    assert outcomes == sorted(outcomes)
    assert set(outcomes[:-1]) == served
    assert code == 0
