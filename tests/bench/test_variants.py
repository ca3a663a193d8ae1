"""Comparisons of several kinds and sizes: lists of epochs and memories, targets alone, several processes, kills."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from adaptd.bench import cell, unfinished
from adaptd.bench.asked import Asked, Kind
from adaptd.bench.grid import Grid
from adaptd.bench.recipes import BenchDomain, Recipe
from adaptd.bench.sweep import render_sweep
from adaptd.errors import ConfigError
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import resolve_settings
from tests.bench.test_bench import SMALL, folders  # noqa: F401 (a fixture)
from tests.conftest import REPOSITORY

SETTINGS = {
    "model.backbone": "lenet5",
    "model.image_size": 16,
    "source.epochs": 1,
    "training.epochs": 2,
    "training.batch_size": 16,
    "training.threads": 1,
    "method.guarded.min_agreement": 0,  # so short a source training leaves little to recognise
}


@pytest.fixture
def recipe():
    """Three domains of two classes, darker and brighter."""

    def draw(count: int, shift: int, seed: int) -> ImageSet:
        chance, labels = np.random.default_rng(seed), np.arange(count) % 2
        pixels = chance.integers(0, 60, (count, 3, 16, 16)) + shift
        pixels[labels == 1, :, :, 8:] += 120
        return ImageSet(np.arange(count), pixels.astype(np.uint8), labels)

    domains = [BenchDomain(name, draw(40, 30 * n, n), draw(8, 30 * n, 9 + n)) for n, name in enumerate(("day", "dusk", "night"))]
    return Recipe("tiny", tuple(domains), ("a", "b"), {})


def stop_at(calls: int):
    """A show that is killed, so to speak, when it is told for the nth time."""
    left = [calls]

    def show(*_: object) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    return show


@pytest.mark.parametrize("method", ["grcl", "guarded"])
def test_a_cell_goes_on_where_it_was_stopped(recipe, tmp_path, monkeypatch, method):
    """Stopped again and again, in episodes, between them and while measuring, it ends with the same R and reports."""
    monkeypatch.setattr(unfinished, "CHECKPOINT_SECONDS", 0.0)
    settings = resolve_settings({}, SETTINGS)
    calm, broken = (Grid(recipe, settings, (method,), (0,), tmp_path / name) for name in ("calm", "broken"))
    assert calm.run(method, 0, lambda *_: None)
    steps, stops = [], 0
    take = cell.Training._take_step
    monkeypatch.setattr(cell.Training, "_take_step", lambda self, step: steps.append(step) or take(self, step))
    for calls in range(8, 200):
        try:
            broken.run(method, 0, stop_at(calls))
        except KeyboardInterrupt:
            stops += 1
        else:
            break
    assert stops >= 3, "too few to tell"
    (wanted,), (found,) = calm.results()["rows"], broken.results()["rows"]
    assert found["R"] == wanted["R"]
    for one, other in zip(found["episodes"], wanted["episodes"], strict=True):
        assert one["cross_entropy"] == other["cross_entropy"]
        assert one["steps"] == other["steps"]
    assert max(steps) + 1 == max(episode["steps"] for episode in wanted["episodes"])
    assert list((tmp_path / "broken").rglob("*.unfinished")) == []


def test_a_damaged_checkpoint_costs_its_episode(recipe, tmp_path, monkeypatch):
    """It is thrown away, and the episode begins anew from the one before it."""
    monkeypatch.setattr(unfinished, "CHECKPOINT_SECONDS", 0.0)
    grid = Grid(recipe, resolve_settings({}, SETTINGS), ("grcl",), (0,), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        grid.run("grcl", 0, stop_at(40))
    (checkpoint,) = tmp_path.rglob("checkpoint-*")
    (checkpoint / "tensors.safetensors").write_bytes(b"not what was written")
    assert grid.run("grcl", 0, lambda *_: None)


def test_a_cell_is_run_by_one_process_at_a_time(recipe, tmp_path):
    """Who comes second leaves it alone."""
    grid = Grid(recipe, resolve_settings({}, SETTINGS), ("source-only",), (0,), tmp_path)
    file = grid._file("source-only", 0)
    file.parent.mkdir(parents=True)
    with unfinished.claiming(file.with_suffix(".lock"), wait=False):
        assert not grid.run("source-only", 0, lambda *_: None)
    assert grid.run("source-only", 0, lambda *_: None)
    assert not grid.run("source-only", 0, lambda *_: None), "it is there"


def test_a_cell_that_goes_on_with_another_commit_names_both(recipe, tmp_path, monkeypatch):
    """Its first part was made by other code."""
    grid = Grid(recipe, resolve_settings({}, SETTINGS), ("grcl",), (0,), tmp_path)
    monkeypatch.setattr("adaptd.bench.grid.find_commit", lambda: "one")
    with pytest.raises(KeyboardInterrupt):
        grid.run("grcl", 0, stop_at(30))
    monkeypatch.setattr("adaptd.bench.grid.find_commit", lambda: "two")
    grid.run("grcl", 0, lambda *_: None)
    assert grid.results()["commits"] == ["one, two"]


def test_epochs_memories_and_processes(adaptd, folders, tmp_path):  # noqa: F811
    """Four variants have cells of their own, run by two processes; each has a line in the table; a second call runs none."""
    out = tmp_path / "out"
    words = [
        "bench",
        "folders",
        *folders,
        "--methods",
        "grcl",
        "--epochs",
        "1,2",
        "--memory",
        "8,16",
        "--jobs",
        "2",
        "--out",
        out,
    ]
    run = adaptd(*words, env=SMALL)
    assert run.returncode == 0, run.stderr
    rows = json.loads((out / "results.json").read_text())["rows"]
    assert [(row["epochs"], row["memory"]) for row in rows] == [(1, 8), (1, 16), (2, 8), (2, 16)]
    assert len({json.dumps(row["R"][0]) for row in rows}) == 1, "all start from the same source model"
    assert rows[0]["steps"] * 2 == rows[2]["steps"]
    assert {"sweep-epochs.png", "sweep-memory.png", "epochs-2-memory-16"} <= {path.name for path in out.iterdir()}
    assert "| grcl | 2 | 16 | 1 |" in run.stdout
    assert "4 of 4 cells run now" in run.stderr
    assert "0 of 4 cells run now" in adaptd(*words, env=SMALL).stderr


@pytest.mark.long
def test_a_killed_comparison_of_several_processes_goes_on(folders, tmp_path):  # noqa: F811
    """SIGKILL of the whole group leaves nothing that the same command trips over."""
    command = [sys.executable, "-m", "adaptd.cli.main", "bench", "folders", *map(str, folders), "--methods", "grcl"]
    command += ["--epochs", "2", "--seeds", "0,1", "--jobs", "2", "--out", str(tmp_path / "out")]
    environment = {**os.environ, **SMALL}
    first = subprocess.Popen(command, cwd=REPOSITORY, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("out/source-*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    again = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert len(json.loads((tmp_path / "out" / "results.json").read_text())["rows"]) == 2


def test_each_target_alone(adaptd, folders, tmp_path):  # noqa: F811
    """The paper's three systems on each target, from the source; source-only leaves the source as it is."""
    run = adaptd("bench", "folders", *folders, "--alone", "--epochs", "1", "--out", tmp_path, env=SMALL)
    assert run.returncode == 0, run.stderr
    report = json.loads((tmp_path / "alone.json").read_text())
    assert report["targets"] == ["dusk", "night"]
    assert {(row["method"], row["name"]) for row in report["rows"]} == {
        (method, name) for method in ("source-only", "contrastive+source", "contrastive+sdc") for name in ("dusk", "night")
    }
    assert "| method | dusk | night | mean of the targets | source, mean |" in run.stdout
    assert (tmp_path / "alone.png").stat().st_size > 5000


def test_what_the_paper_has_stands_beside_it():
    """GRCL's own epochs and memories; nothing beside other methods and other numbers."""

    def row(method: str, epochs: int, memory: int) -> dict:
        return {
            "method": method,
            "epochs": epochs,
            "memory": memory,
            "acc": 0.5,
            "bwt": None,
            "R": [[0.9]],
            "steps": 1,
            "seconds": 6,
        }

    rows = [row("grcl", 240, 1024), row("grcl", 120, 1024), row("grcl", 240, 256), row("grcl", 5, 256), row("guarded", 240, 1024)]
    text = render_sweep({"recipe": "digits", "caveats": "", "commits": ["c"], "rows": rows})
    assert [line.split("|")[-2].strip() for line in text.splitlines()[-5:]] == ["85.34", "80.10", "83.00", "–", "–"]


def test_lists_that_cannot_be_taken(tmp_path, adaptd):
    """Told before anything is read or trained."""
    asked = Asked("digits", Kind.ALONE, (), (), (0,), (1, 2), (), None, tmp_path, ())
    comparison = replace(asked, epochs=()).load()
    with pytest.raises(ConfigError, match="--alone takes one number"):
        list(replace(comparison, asked=asked).grids())
    run = adaptd("bench", "digits", "--epochs", "0")
    assert (run.returncode, "--epochs '0': give whole numbers from 1 on" in run.stderr) == (5, True)
    run = adaptd("bench", "digits", "--pairs", "--alone")
    assert (run.returncode, "ask for one after the other" in run.stderr) == (5, True)
