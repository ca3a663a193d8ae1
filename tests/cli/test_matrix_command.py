"""`adaptd matrix`: R for people, programs and pictures."""

import csv
import json
from io import StringIO

import pytest
from PIL import Image

from adaptd.records import Accuracy, AccuracyKind, DomainState
from adaptd.store import NewEpisode, NewVersion, Store

R = {(1, 1): ("measured", 0.9), (1, 2): ("measured", 0.5), (2, 1): ("measured", 0.8), (2, 2): ("estimated", 0.7)}


@pytest.fixture
def measured(project):
    """A project with two rows of R."""
    with Store(f"sqlite:///{project}/state/adaptd.db") as store, store.writing() as tx:
        for name in ("source", "night"):
            domain = tx.domains.add(name, DomainState.DONE)
            episode = tx.episodes.add(NewEpisode(domain.id, "grcl", 0, {}, "0" * 64))
            lease = tx.episodes.lease(episode.id, "worker", "boot", 1.0)
            tx.domains.place(domain.id)
            tx.episodes.commit(episode.id, lease, {})
            tx.versions.add(NewVersion(None, episode.id, ("a", "b"), "w", "0" * 64))
        for (version, domain_id), (kind, value) in R.items():
            known = {"correct": round(value * 10)} if kind == "measured" else {"estimator": "range", "low": 0.58, "high": 0.83}
            tx.accuracies.record(Accuracy(version, domain_id, AccuracyKind(kind), value, 10, **known))
        for name, value in (("atc", 0.95), ("check", 0.6)):
            tx.accuracies.record(Accuracy(2, 2, AccuracyKind.ESTIMATED, value, 10, estimator=name))
    return project


def test_an_empty_project(adaptd, project, tmp_path):
    """No R yet: JSON and CSV are empty, a person is told what to do, and no picture is drawn."""
    assert "run `adaptd source import DIR` first" in adaptd("--project", project, "matrix").stdout
    document = json.loads(adaptd("--project", project, "matrix", "--json").stdout)
    assert (document["schema"], document["R"], document["metrics"]["acc"]) == ("adaptd.matrix/1", [], None)
    assert adaptd("--project", project, "matrix", "--csv").stdout == "episode,domain,accuracy,kind,n,low,high,held_out\n"
    run = adaptd("--project", project, "matrix", "--plot", tmp_path / "r.png")
    assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
    assert "R is empty" in run.stderr
    assert not (tmp_path / "r.png").exists()


def test_json(adaptd, measured):
    """R row by row, how each entry is known, and the metrics."""
    document = json.loads(adaptd("--project", measured, "matrix", "--json").stdout)
    assert document["domains"] == ["source", "night"]
    assert document["R"] == [[0.9, 0.5], [0.8, 0.7]]
    assert document["kind"] == [["measured", "measured"], ["measured", "estimated"]]
    assert document["metrics"]["acc"] == pytest.approx(0.75)
    assert (document["metrics"]["measured"], document["metrics"]["estimated"]) == (3, 1)


def test_csv(adaptd, measured):
    """One line for each entry."""
    lines = list(csv.DictReader(StringIO(adaptd("--project", measured, "matrix", "--csv").stdout)))
    assert [(line["episode"], line["domain"], line["kind"]) for line in lines] == [
        ("0", "source", "measured"),
        ("0", "night", "measured"),
        ("1", "source", "measured"),
        ("1", "night", "estimated"),
    ]


def test_two_formats_at_once(adaptd, measured):
    """Asking for both is a mistake, not a choice of ours."""
    run = adaptd("--project", measured, "matrix", "--json", "--csv")
    assert (run.returncode, run.stdout) == (2, "")


def test_a_table_for_people(adaptd, measured):
    """Estimates have a tilde and a range, and a mark where they flatter; the metrics stand below."""
    text = adaptd("--project", measured, "matrix").stdout
    assert "~70.0 (58–83)!" in text
    assert "90.0" in text
    assert "ACC is the mean of 1 measured and 1 estimated accuracies" in text
    assert "episode 1: source on 10 images, night on 10 images" in text


def test_a_picture(adaptd, measured, tmp_path):
    """A PNG with something on it, whatever the file is called; JSON on standard output stays clean."""
    for name in ("r.png", "r.picture"):
        run = adaptd("--project", measured, "matrix", "--json", "--plot", tmp_path / name)
        assert run.returncode == 0, run.stderr
        json.loads(run.stdout)
        with Image.open(tmp_path / name) as picture:
            assert picture.format == "PNG"
            assert min(picture.size) > 300
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 50


def test_a_picture_that_cannot_be_written(adaptd, measured, tmp_path):
    """One line names the path."""
    run = adaptd("--project", measured, "matrix", "--plot", tmp_path / "none" / "r.png")
    assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
    assert str(tmp_path / "none" / "r.png") in run.stderr
