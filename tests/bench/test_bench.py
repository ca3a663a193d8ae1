"""The harness: recipes, a whole small comparison through the command line, and what its tables say."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adaptd import __version__
from adaptd.bench import grid as grid_module
from adaptd.bench.grid import Grid
from adaptd.bench.pairs import render_pairs
from adaptd.bench.recipes import DIGITS, Recipe, data_folder, load_digits, load_folders
from adaptd.bench.report import render_tables
from adaptd.bench.stamp import find_commit
from adaptd.errors import ConfigError, FolderUnusable
from adaptd.learning.methods.options import GrclOptions
from adaptd.learning.methods.settings import MethodSettings
from adaptd.learning.settings import TrainingSettings
from adaptd.project.settings import Settings

SMALL = {
    "ADAPTD_MODEL__BACKBONE": "lenet5",
    "ADAPTD_MODEL__IMAGE_SIZE": "16",
    "ADAPTD_SOURCE__EPOCHS": "2",
    "ADAPTD_TRAINING__BATCH_SIZE": "16",
}
METHODS = "source-only,contrastive+source,contrastive+source+memory,contrastive+sdc,grcl,oracle"


def write_images(folder: Path, count: int, shift: int, seed: int) -> None:
    """Two classes that can be told apart, darker or brighter by domain."""
    draw = np.random.default_rng(seed)
    for number in range(count):
        label = number % 2
        image = draw.integers(0, 60, (16, 16, 3)) + shift
        image[:, 8 * label : 8 * label + 8] += 120
        place = folder / f"class{label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(place / f"{number}.png")


@pytest.fixture
def folders(tmp_path):
    """A source and two targets."""
    paths = [tmp_path / name for name in ("day", "dusk", "night")]
    for number, path in enumerate(paths):
        write_images(path, 40, 30 * number, number)
    return paths


class TestRecipes:
    def test_a_target_with_its_own_test_set_keeps_its_labels_out_of_training(self, folders, tmp_path):
        """Images outside `_test/` have no labels; those inside do."""
        (folders[1] / "class0").rename(folders[1] / "unsorted")
        write_images(folders[1] / "_test", 6, 30, 9)
        domains, classes = load_folders(folders, tmp_path / "cache", 16)
        assert classes == ("class0", "class1")
        assert domains[1].train.labels is None
        assert sorted(domains[1].test.labels) == [0, 0, 0, 1, 1, 1]

    def test_a_fifth_of_each_class_is_held_out(self, folders, tmp_path):
        """The split is stratified, and the second time the cache is opened, not decoded."""
        domains, _ = load_folders(folders, tmp_path / "cache", 16)
        assert [(len(d.train), len(d.test)) for d in domains] == [(32, 8)] * 3
        for folder in folders:
            for image in folder.rglob("*.png"):
                image.write_bytes(b"")
        again, _ = load_folders(folders, tmp_path / "cache", 16)
        assert (again[0].test.pixels == domains[0].test.pixels).all()

    def test_a_class_the_source_does_not_have(self, folders, tmp_path):
        """Named, before anything is trained."""
        (folders[2] / "class1").rename(folders[2] / "other")
        with pytest.raises(FolderUnusable, match="other"):
            load_folders(folders, tmp_path / "cache", 16)

    def test_one_folder_is_no_comparison(self, folders, tmp_path):
        """A source alone has nothing to adapt to."""
        with pytest.raises(ConfigError, match="at least one target"):
            load_folders(folders[:1], tmp_path / "cache", 16)

    def test_digits(self):
        """The archives become domains in the paper's order."""
        data = data_folder(None)
        if not (data / "digits").is_dir():
            pytest.skip(f"no benchmark data in {data}: set ADAPTD_BENCH_DATA")
        recipe = load_digits(data)
        assert [domain.name for domain in recipe.domains] == list(DIGITS)
        assert recipe.domains[1].train.pixels.shape == (7500, 3, 32, 32)

    def test_missing_data_names_the_remedy(self, tmp_path):
        """Where the archives are not, the option is."""
        with pytest.raises(FolderUnusable, match="--data"):
            load_digits(tmp_path)


@pytest.mark.long
def test_a_comparison_from_the_command_line(adaptd, folders, tmp_path):
    """Every method runs the same number of steps from the same source model; a second call runs nothing again."""
    out = tmp_path / "out"
    words = ["bench", "folders", *folders, "--methods", METHODS, "--seeds", "0", "--epochs", "2", "--out", out]
    run = adaptd(*words, env=SMALL)
    assert run.returncode == 0, run.stderr
    results = json.loads((out / "results.json").read_text())
    rows = {row["method"]: row for row in results["rows"]}
    assert list(rows) == METHODS.split(",")
    assert len({json.dumps(row["R"][0]) for name, row in rows.items() if name != "oracle"}) == 1
    assert len({row["steps"] for name, row in rows.items() if name not in {"oracle", "source-only"}}) == 1
    assert rows["source-only"]["R"][0] == rows["source-only"]["R"][-1]
    assert [np.shape(row["R"]) for row in rows.values()] == [(3, 3)] * 6
    assert rows["oracle"]["harness_only"]
    assert rows["grcl"]["episodes"][1]["cross_entropy"]["memory"]["before"] is not None
    assert {"table.md", "comparison.png", "matrix-grcl.png"} <= {path.name for path in out.iterdir()}
    assert "oracle (harness only)" in run.stdout
    assert {row["commit"] for row in rows.values()} == set(results["commits"]) == {find_commit()}
    assert f"Commit {find_commit()}." in run.stdout
    again = adaptd(*words, env=SMALL)
    assert "0 of 6 cells run now" in again.stderr
    assert json.loads((out / "results.json").read_text())["rows"] == results["rows"]


def test_unknown_words_are_named(adaptd, folders, tmp_path):
    """A recipe or method that does not exist is a configuration error that lists what does."""
    for words, choice in ((["magic"], "office-caltech"), (["folders", *folders, "--methods", "magic"], "contrastive+sdc")):
        run = adaptd("bench", *words, "--out", tmp_path / "out", env=SMALL)
        assert run.returncode == 5
        assert choice in run.stderr


def test_the_gap_closed(tmp_path):
    """(own − source-only) / (oracle − source-only), by mean ACC; the oracle closes all of it."""

    def row(method: str, acc: float) -> dict:
        report = {
            "domain": "b",
            "cross_entropy": {"source": {"before": 1.0, "after": 0.5}, "memory": {"before": None, "after": None}},
        }
        report |= {"constraint_active_ratio": {}, "memory_purity": 0.9}
        common = {"seed": 0, "R": [[0.9, 0.5], [0.8, acc]], "acc_targets": acc, "bwt": None, "steps": 7, "seconds": 60.0}
        return {"method": method, "acc": acc, "domains": ["a", "b"], "episodes": [report], "commit": "c", **common}

    rows = [row("source-only", 0.5), row("grcl", 0.7), row("oracle", 0.9)]
    text = render_tables({"recipe": "x", "caveats": "beware", "rows": rows})
    assert "| grcl | 70.0 | 70.0 | – | 80.0 | -10.0 | 50 % | 7 | 1.0 |" in text
    assert "100 %" in text
    assert "beware" in text
    assert "| grcl | 1 b | 1.000 → 0.500 | – | – | – | 90.0 |" in text
    assert "Commit c." in text
    rows[1]["commit"] = "d+dirty"
    mixed = render_tables({"recipe": "x", "caveats": "", "rows": rows})
    assert "**Made by several commits**" in mixed
    assert "c: source-only 0, oracle 0; d+dirty: grcl 0." in mixed


def test_a_resumed_grid_keeps_the_commit_of_each_cell(tmp_path, monkeypatch):
    """Cells that another commit made stay as they are, those without a stamp are unknown, and results name them all."""
    recipe = Recipe("x", (), ("a", "b"), {})
    grid = Grid(recipe, Settings(), ["grcl", "guarded"], [0, 1], tmp_path)
    monkeypatch.setattr(grid_module, "train_source", lambda *_: None)
    monkeypatch.setattr(
        grid_module, "run_cell", lambda _recipe, settings, method, *_: {"method": method, "seed": settings.training.seed}
    )
    for commit, cell in (("one", ("grcl", 0)), ("two+dirty", ("guarded", 0)), ("two+dirty", ("grcl", 1))):
        monkeypatch.setattr(grid_module, "find_commit", lambda commit=commit: commit)
        grid.run(*cell, lambda *_: None)
    assert grid.missing() == [("guarded", 1)]
    next(tmp_path.rglob("grcl-1.json")).write_text('{"method": "grcl", "seed": 1}')
    results = grid.results()
    assert [row["commit"] for row in results["rows"]] == ["one", "unknown", "two+dirty"]
    assert results["commits"] == ["one", "two+dirty", "unknown"]


def test_another_methods_options_do_not_undo_a_cell(tmp_path, monkeypatch):
    """A result depends on its own method's options alone."""
    monkeypatch.setattr(grid_module, "train_source", lambda *_: None)
    monkeypatch.setattr(grid_module, "run_cell", lambda *_: {})
    recipe = Recipe("x", (), ("a",), {})
    first = Grid(recipe, Settings(), ["grcl", "guarded"], [0], tmp_path)
    for cell in first.cells:
        first.run(*cell, lambda *_: None)
    changed = Settings(method=MethodSettings(grcl=GrclOptions(negatives=7)))
    assert Grid(recipe, changed, ["grcl", "guarded"], [0], tmp_path).missing() == [("grcl", 0)]


def test_what_a_method_would_ignore_is_told_before_anything_runs(tmp_path):
    """Momentum is nothing for guarded, and fine for grcl alone, whatever [method] name says."""
    settings, recipe = Settings(training=TrainingSettings(momentum=0.9)), Recipe("x", (), ("a",), {})
    Grid(recipe, settings, ["grcl", "oracle"], [0], tmp_path)
    with pytest.raises(ConfigError, match="momentum does nothing with rmsprop, the update rule of guarded"):
        Grid(recipe, settings, ["grcl", "guarded"], [0], tmp_path)


def test_the_commit_of_a_tree(tmp_path):
    """HEAD of the file's own tree, +dirty once a file differs from it; the version where the file is in no tree."""
    source = tmp_path / "module.py"
    source.write_text("1\n")
    assert find_commit(source) == __version__
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert find_commit.__wrapped__(source) == __version__, "a tree that does not hold the file"
    subprocess.run([*git, "add", "module.py"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert find_commit.__wrapped__(source) == head[:12]
    source.write_text("2\n")
    assert find_commit.__wrapped__(source) == f"{head[:12]}+dirty"


def test_a_refused_domain_changes_nothing(adaptd, folders, tmp_path):
    """A target of one class alone is refused: R's row stays, nothing is remembered, and the table says so."""
    shutil.rmtree(folders[1] / "class1")
    write_images(folders[1] / "_test", 6, 30, 9)
    words = ["bench", "folders", *folders[:2], "--methods", "guarded", "--epochs", "2", "--out", tmp_path / "out"]
    run = adaptd(*words, env=SMALL | {"ADAPTD_SOURCE__EPOCHS": "8"})
    assert run.returncode == 0, run.stderr
    (row,) = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert row["R"][1] == row["R"][0]
    assert "one class alone" in row["episodes"][0]["refused"]
    assert "1 dusk (refused 1 of 1 times)" in run.stdout


def test_every_pair_from_the_command_line(adaptd, folders, tmp_path):
    """Six pairs and two sequences of three folders; who was helped is counted, and a second call runs nothing again."""
    out = tmp_path / "out"
    words = ["bench", "pairs", *folders, "--methods", "source-only", "--out", out]
    run = adaptd(*words, env=SMALL | {"ADAPTD_SOURCE__EPOCHS": "1"})
    assert run.returncode == 0, run.stderr
    report = json.loads((out / "source-only" / "pairs.json").read_text())
    assert {(pair["source"], pair["target"]) for pair in report["pairs"]} == {
        (one.name, other.name) for one in folders for other in folders if one != other
    }
    assert [row["domains"] for row in report["sequences"]] == [["day", "dusk", "night"], ["night", "dusk", "day"]]
    assert "Of 6 pairs 0 helped, 6 unchanged" in run.stdout
    assert (out / "source-only" / "pairs.png").stat().st_size > 5000
    assert "done: " not in adaptd(*words, env=SMALL | {"ADAPTD_SOURCE__EPOCHS": "1"}).stderr


def test_what_pairs_come_to():
    """Within a point is unchanged; the worst pair is named."""

    def pair(target: str, gain: float) -> dict[str, object]:
        known = {"seed": 0, "before": 0.5, "after": 0.5 + gain, "gain": gain, "source_before": 0.9, "source_after": 0.9}
        return {"source": "day", "target": target, "refused": None} | known

    pairs = [pair("a", 0.1), pair("b", 0.005), pair("c", -0.03), pair("d", -0.2)]
    text = render_pairs({"recipe": "x", "method": "m", "commits": ["c"], "pairs": pairs, "sequences": []})
    assert "Of 4 pairs 1 helped, 1 unchanged (within 1 point), 2 harmed; mean gain -3.1 points" in text
    assert "the worst is day → d, -20.0" in text


def test_the_oracle_has_no_pairs(adaptd, folders, tmp_path):
    """It is told, before anything is trained."""
    run = adaptd("bench", "pairs", *folders, "--methods", "oracle", "--out", tmp_path / "out", env=SMALL)
    assert (run.returncode, "Traceback" in run.stderr) == (5, False)
    assert "choose other --methods" in run.stderr
