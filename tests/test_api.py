"""`import adaptd`: the page about it as it is written, what it refuses, and that importing it costs nothing."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import adaptd
from adaptd.errors import DomainUnknown, DrainIncomplete, FolderUnusable, ProjectNotFound, ServingError

from .conftest import FAST, REPOSITORY

PAGE = REPOSITORY / "docs" / "python.md"
NO_PORT = {"ADAPTD_METRICS__PORT": "0"}


@pytest.fixture
def settings(monkeypatch) -> None:
    """Quick episodes, for this process and what it starts."""
    for name, value in (FAST | NO_PORT).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def camera(tmp_path, paint) -> Path:
    """A domain of 60 images."""
    return paint(tmp_path / "camera-7", 20, seed=1, shift=30, flat=True)


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that will come true."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_page_runs_as_it_is_written(shop, camera, settings):
    """Without a daemon: `wait` does the work, and loads no torch into the process that waits."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    code += "\nimport sys\nassert 'torch' not in sys.modules\nassert isinstance(shop, adaptd.OpenProject)\n"
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=shop.root.parent,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "done 60"
    assert lines[1].split() == ["domain", "camera-7", "source"]
    assert lines[-6].split()[0] in {"1", "2"}
    assert lines[-4].startswith("camera-7/a-1-000.png ")
    assert [line.split()[0] for line in lines[-3:-1]] == ["1", "2"]
    assert "there is no such file" in lines[-1]
    assert camera.is_dir(), "it was copied"


def test_waits_for_the_daemon_where_one_runs(shop, camera, settings):
    """And for another delivery of a domain that is done, too small to learn from; a timeout changes nothing."""
    project = adaptd.open(shop.root)
    daemon = shop.start("run", env=NO_PORT)
    wait_until(lambda: project.status()["daemon"]["running"])
    assert project.wait(project.drop(camera))["state"] == "done"
    assert project.status()["daemon"]["pid"] == daemon.pid
    (camera / "more.png").write_bytes((camera / "a-1-000.png").read_bytes() + b"\0")
    again = project.drop(camera, name="camera-7")
    with pytest.raises(TimeoutError):
        project.wait(again, timeout=0.1)
    assert "too few images" in project.wait(again)["reason"]
    assert daemon.is_running(), daemon.wait()
    daemon.signal(15)
    assert daemon.wait().returncode == 0


class TestDropping:
    def test_appears_whole(self, shop, camera):
        """Under its name from one moment to the next, with the mark; nothing else is left in the inbox."""
        seen: set[frozenset[str]] = set()
        stop = threading.Event()
        inbox = shop.root / "inbox"

        def watch() -> None:
            while not stop.is_set():
                if (inbox / "x").is_dir():
                    seen.add(frozenset(names(inbox / "x")))

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert adaptd.open(shop.root).drop(camera, name="x") == "x"
        stop.set()
        watcher.join()
        assert seen <= {frozenset([*names(camera), "_READY"])}
        assert names(inbox) == ["x"]
        with pytest.raises(FolderUnusable, match="in the inbox already"):
            adaptd.open(shop.root).drop(camera, name="x")
        assert names(inbox) == ["x"]

    @pytest.mark.parametrize("name", ["source", "../x", ".hidden", "", "a/b"])
    def test_names_that_are_none(self, shop, camera, name):
        """Refused, and nothing is written."""
        with pytest.raises(FolderUnusable, match="is not a name"):
            adaptd.open(shop.root).drop(camera, name=name)
        assert names(shop.root / "inbox") == []

    def test_what_cannot_be_copied(self, shop, tmp_path):
        """An empty folder, and none at all; nothing is left of either."""
        (tmp_path / "empty").mkdir()
        with pytest.raises(FolderUnusable, match="the inbox is in"):
            adaptd.open(shop.root).drop(shop.root)
        with pytest.raises(FolderUnusable, match="nothing in"):
            adaptd.open(shop.root).drop(tmp_path / "empty")
        with pytest.raises(FileNotFoundError):
            adaptd.open(shop.root).drop(tmp_path / "missing")
        assert names(shop.root / "inbox") == []

    def test_links_stay_links(self, shop, tmp_path, camera):
        """The folder may be named by a link; what links in it point to is not copied."""
        (camera / "secret.png").symlink_to("/etc/hostname")
        (tmp_path / "named").symlink_to(camera)
        assert adaptd.open(shop.root).drop(tmp_path / "named") == "camera-7"
        assert (shop.root / "inbox" / "camera-7" / "secret.png").is_symlink()


def test_waiting_for_nothing(shop, empty_shop_too, camera, settings):
    """A name that nobody knows, a pause, and a project that has nothing to adapt from, end with what to do."""
    project = adaptd.open(shop.root)
    for name in ("camera-8", "source"):
        with pytest.raises(DomainUnknown):
            project.wait(name)
    shop.does("pause")
    with pytest.raises(DrainIncomplete, match="everything is paused"):
        project.wait(project.drop(camera), timeout=60)
    project = adaptd.open(empty_shop_too)
    with pytest.raises(DrainIncomplete, match="no version is promoted"):
        project.wait(project.drop(camera), timeout=60)


@pytest.fixture
def empty_shop_too(_new_shop, tmp_path) -> Path:
    """A project without a source, beside the other."""
    return _new_shop.copy(tmp_path / "empty-shop").root


def test_opening(shop, tmp_path, monkeypatch):
    """By folder, or from anywhere inside; and where there is none."""
    monkeypatch.chdir(shop.root / "inbox")
    assert adaptd.open().project.root == adaptd.open(str(shop.root)).project.root == shop.root
    with pytest.raises(ProjectNotFound):
        adaptd.open(tmp_path)
    with pytest.raises(AttributeError):
        adaptd.nothing  # noqa: B018


def test_predicting(shop, camera):
    """The same label by path, as a Pillow image and as an array; an odd array is an error of the program."""
    model = adaptd.open(shop.root).load(1)
    assert isinstance(model, adaptd.Predictor)
    assert (model.name, model.version, model.classes) == ("shop", 1, ("a", "b", "c"))
    path = camera / "b-1-003.png"
    array = np.asarray(Image.open(path))
    rows = model.predict([path, Image.open(path), array])
    assert len({(row["label"], row["probability"]) for row in rows}) == 1
    assert [row["image"] for row in rows] == [str(path), 1, 2]
    assert model.predict(array)[0]["label"] == model.predict(str(path))[0]["label"]
    assert model.predict(np.stack([array] * 70))[69]["label"] == rows[0]["label"]
    assert model.predict(array[:, :, 0])[0]["label"] in model.classes
    assert "32-bit" in model.predict(Image.new("F", (9, 9)))[0]["error"]
    for odd in (array.astype(float), array.transpose(2, 0, 1)[:, :, :5], np.zeros(3, np.uint8), [7]):
        with pytest.raises(TypeError, match="a picture is"):
            model.predict(odd)
    assert next(model.predict_each(path for _ in range(10**9)))["label"] == rows[0]["label"]
    with pytest.raises(ServingError, match="only 1"):
        adaptd.open(shop.root).load(9)


def test_importing_it_is_cheap():
    """Nothing but the package itself is loaded, until a name is used."""
    program = "import sys; before = set(sys.modules); import adaptd; print(*set(sys.modules) - before); adaptd.open"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert {name.partition(".")[0] for name in run.stdout.split()} <= {"adaptd", *sys.stdlib_module_names}
    assert "adaptd.api" not in run.stdout
