"""Kill -9 at every system call of publishing that changes the disk, watched by somebody who reads the folder like Triton."""

import hashlib
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from adaptd.publishing.card import read_card
from adaptd.publishing.repository import ModelRepository
from adaptd.publishing.triton import read_version

CALLS = ("write", "fsync", "?rename,?renameat", "?mkdir,?mkdirat", "?unlink", "unlinkat", "?rmdir")
"""What changes the disk. Not every processor has every call."""

PAUSE_SECONDS = 0.001
"""Between two looks: who never paused would take a core from those who are killed."""

PUBLISH = """
import os, sys
from pathlib import Path
from adaptd.files import write_file
from adaptd.publishing.repository import ModelRepository
root, sha256, ready = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
repository = ModelRepository(root / "models", "digits", root / "state")
folder = repository.prepare(3)
for name in ("model.onnx", "card.json"):
    (folder / name).write_bytes((ready / name).read_bytes())
write_file(root / "committed", b"3")     # the row in the store
repository.publish(3, sha256)
repository.withdraw(1)
"""


class TritonLike(threading.Thread):
    """Loads, again and again, the largest version it sees, and whatever else stands in the folder; remembers what was bad."""

    def __init__(self, folder: Path, models: dict[int, str]) -> None:
        super().__init__()
        self.folder, self.models = folder, models
        self.bad: list[str] = []
        self.looks = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Until told to stop."""
        while not self.over.wait(PAUSE_SECONDS):
            self.look()

    def look(self) -> None:
        """One poll."""
        self.looks += 1
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        versions = {name: read_version(name) for name in names if name != "config.pbtxt"}
        self.bad += [name for name, version in versions.items() if version is None or str(version) != name]
        if not versions:
            return
        latest = max(versions.values())
        try:
            found = hashlib.sha256((self.folder / str(latest) / "model.onnx").read_bytes()).hexdigest()
            read_card(self.folder / str(latest))
            described = (self.folder / "config.pbtxt").read_text().endswith("dynamic_batching { }\n")
        except Exception as error:  # noqa: BLE001  # whatever it is, Triton would have failed to load
            self.bad.append(f"{latest}: {error!r}")
        else:
            if found != self.models.get(latest) or not described:
                self.bad.append(f"{latest} is not what was proven")


def _publish(root: Path, sha256: str, ready: Path, call: str, nth: int) -> int:
    """Run the publisher, killed when it enters a system call for the nth time."""
    kill = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={nth}"]
    run = subprocess.run(
        [*kill, sys.executable, "-B", "-c", PUBLISH, root, sha256, ready], capture_output=True, text=True, check=False
    )
    assert run.returncode in {0, -9, 137}, run.stderr
    return run.returncode


@pytest.fixture
def stages(tmp_path, facts, card):
    """Three versions ready to be copied, with their hashes."""
    if shutil.which("strace") is None or subprocess.run(["strace", "-qq", "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not installed or may not trace: apt-get install strace")
    models = {version: b"model %d" % version * 30_000 for version in (1, 2, 3)}
    hashes = {version: hashlib.sha256(content).hexdigest() for version, content in models.items()}
    for version, content in models.items():
        folder = tmp_path / f"ready-{version}"
        folder.mkdir()
        (folder / "model.onnx").write_bytes(content)
        (folder / "card.json").write_text(card(facts(version), hashes[version]).to_text(), encoding="utf-8")
    return tmp_path, hashes


def _begin(root: Path, tmp_path: Path, hashes: dict[int, str], already: tuple[int, ...]) -> ModelRepository:
    """A repository with some versions in it."""
    repository = ModelRepository(root / "models", "digits", root / "state")
    root.mkdir()
    for version in already:
        shutil.copytree(tmp_path / f"ready-{version}", repository.prepare(version), dirs_exist_ok=True)
        repository.publish(version, hashes[version])
    return repository


@pytest.mark.parametrize("already", [pytest.param((), id="first", marks=pytest.mark.long), pytest.param((1, 2), id="later")])
@pytest.mark.parametrize("call", CALLS)
def test_no_kill_shows_anything_but_whole_proven_versions(stages, call, already):
    """At every such call: the watcher sees nothing bad, recovery finishes or asks for an export, and then all is well."""
    tmp_path, hashes = stages
    for nth in range(1, 100):
        root = tmp_path / f"project-{nth}"
        repository = _begin(root, tmp_path, hashes, already)
        watcher = TritonLike(repository.folder, hashes)
        watcher.start()
        code = _publish(root, hashes[3], tmp_path / "ready-3", call, nth)
        committed = (root / "committed").is_file() and (root / "committed").read_bytes() == b"3"
        stood = [found.version for found in repository.list_versions()]
        repository.recover([(v, hashes[v]) for v in (1, 2, 3) if v in stood or (v == 3 and committed)])
        watcher.over.set()
        watcher.join()
        watcher.look()
        assert watcher.bad == [], f"{call} {nth}"
        assert not repository.staging.exists() or list(repository.staging.iterdir()) == []
        assert committed or 3 not in stood
        # With the row committed the staged folder may still lack its last blocks, never its place in models/.
        after = [found.version for found in repository.list_versions()]
        assert set(stood) <= set(after) <= {*stood, 3}
        assert committed or 3 not in after
        if code == 0:
            assert after[-1] == 3
            assert nth > 1 or "unlink" in call or "rmdir" in call, "this call was never made"
            return
    pytest.fail("publishing does not end")
