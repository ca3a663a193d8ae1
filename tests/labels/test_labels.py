"""Labels that people give, from a list to fill in to a measured column of R: on real files and a real project."""

import csv
import itertools
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from adaptd.daemon.jobs import Job, JobEnd, JobKind, JobOutcome
from adaptd.daemon.labels import LabelWatch
from adaptd.episodes.materials import read_materials
from adaptd.errors import LabelsRefused
from adaptd.imports.importer import Importer
from adaptd.labels.choosing import choose_to_measure, choose_to_teach, read_gallery
from adaptd.labels.doubt import find_doubt
from adaptd.labels.giving import import_labels, remove_labels
from adaptd.labels.reading import SHOWN, find_images, match_rows, read_rows
from adaptd.labels.summary import describe_labels, half_width, tell_shortage
from adaptd.project.layers import load_project
from adaptd.project.layout import Layout
from adaptd.records import AccuracyKind, Purpose, Split
from adaptd.releases.given import LEAST_LABELS, list_unmeasured
from adaptd.store import Store
from tests.conftest import FAST, REPOSITORY, Paint, Shop
from tests.docs.pages import list_commands

MEASURED = "SELECT version, n, correct, low, high FROM accuracies WHERE domain_id = 2 AND kind = 'measured' ORDER BY version"
HELD_OUT = {"ADAPTD_EVALUATION__HELD_OUT": "0.5"}


@pytest.fixture(scope="module")
def _camera(_trained_shop: Shop, paint: Paint, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("camera-7")
    shop = _trained_shop.copy(folder / "shop")
    shop.does("adapt", paint(folder / "camera-7", 20, seed=5, shift=30, flat=True), env=HELD_OUT)
    return shop


@pytest.fixture
def camera(_camera: Shop, tmp_path: Path) -> Shop:
    """A project that adapted to 60 unlabelled images, of which 30 are held out; the first letter of a file is its class."""
    return _camera.copy(tmp_path / "shop")


@pytest.fixture
def store(camera: Shop):
    """Its store."""
    with Store(camera.state / "adaptd.db") as opened:
        yield opened


@pytest.fixture
def gallery(store: Store):
    """What may be labelled of it."""
    with store.reading() as tx:
        return read_gallery(tx, "camera-7")


def write(path: Path, *rows: str, before: str = "image,label") -> Path:
    """A CSV."""
    path.write_text("\n".join([before, *rows, ""]))
    return path


def fill_in(path: Path) -> list[list[str]]:
    """Label a list as a person would who sees what is in the pictures."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    filled = [rows[0], *([name, name[0]] for name, _ in rows[1:])]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(filled)
    return filled[1:]


def read_matrix(shop: Shop) -> dict[str, Any]:
    """R."""
    return json.loads(shop.does("matrix", "--json").stdout)


def test_lists_are_stable_and_never_share_an_image(gallery):
    """Held-out images at random, more of them beginning with the same; others to teach, the most doubtful first."""
    measure = choose_to_measure(gallery, 10)
    assert choose_to_measure(gallery, 20)[:10] == measure
    assert {image.split for image in measure} == {Split.HELD_OUT}
    assert len({image.name[0] for image in choose_to_measure(gallery, 20)}) == 3
    teach = choose_to_teach(gallery, 10)
    assert {image.split for image in teach} == {Split.TRAIN}
    doubts = [float(number) for number in range(len(gallery.teachable()))]
    assert choose_to_teach(gallery, 3, doubts) == gallery.teachable()[-1:-4:-1]


def test_wrong_rows_are_told_by_line_and_nothing_is_taken(gallery, tmp_path):
    """Wrong names, unknown classes, doubled rows: one sentence each, the first ten, then how many more."""
    name = gallery.images[0].name
    path = write(tmp_path / "bad.csv", f"{name},a", "nobody.png,a", f"{gallery.images[1].name},zebra", f"{name},b", ",a")
    with pytest.raises(LabelsRefused, match="4 problems in these labels: nothing was taken") as refused:
        match_rows(gallery, read_rows(path))
    assert refused.value.problems == (
        "line 3: camera-7 has no image nobody.png",
        "line 4: zebra is not a class; there are a, b, c",
        f"line 5: {name} stands there twice, first at line 2",
        "line 6: no image is named",
    )
    path = write(tmp_path / "many.csv", *(f"nobody-{number}.png,a" for number in range(40)))
    with pytest.raises(LabelsRefused) as refused:
        match_rows(gallery, read_rows(path))
    assert len(refused.value.problems) == SHOWN + 1
    assert refused.value.problems[-1] == "and 30 more"


def test_a_list_that_is_labelled_in_part_needs_to_be_meant(gallery, tmp_path):
    """Refused with the number of open rows; taken with `partial`; one without any label never."""
    first, second = (image.name for image in gallery.images[:2])
    rows = read_rows(write(tmp_path / "half.csv", f"{first},a", f"{second},"))
    with pytest.raises(LabelsRefused) as refused:
        match_rows(gallery, rows)
    assert refused.value.problems == ("line 3: 1 rows have no label: label them, or take the others with --partial",)
    answer = match_rows(gallery, rows, partial=True)
    assert (list(answer.labels.values()), answer.left_open) == (["a"], 1)
    with pytest.raises(LabelsRefused):
        match_rows(gallery, rows[1:], partial=True)


@pytest.mark.parametrize(
    "text", ["\ufeffimage;label\r\n{0};a\r\n{1};b\r\n", "Label\tImage\na\t{0}\nb\t{1}\n", 'image,label\n"{0}", a\n\n{1},b']
)
def test_files_of_spreadsheets_are_understood(gallery, tmp_path, text):
    """A BOM, semicolons, tabs, CRLF, quotes, another order of columns, empty lines."""
    path = tmp_path / "labels.csv"
    path.write_bytes(text.format(gallery.images[0].name, gallery.images[1].name).encode())
    assert match_rows(gallery, read_rows(path)).labels == {gallery.images[0].id: "a", gallery.images[1].id: "b"}


@pytest.mark.parametrize("content", [b"", b"name,class\nx,y\n", b"\xff\xfei\x00", b'image,label\n"x', b"image,label\n"])
def test_what_is_no_list_is_said(gallery, tmp_path, content):
    """Empty, other columns, no UTF-8, a quote without an end, no rows."""
    (tmp_path / "labels.csv").write_bytes(content)
    with pytest.raises(LabelsRefused):
        match_rows(gallery, read_rows(tmp_path / "labels.csv"))


def test_folders_of_classes_match_by_content(gallery, camera, tmp_path, paint):
    """Under any name; a file that is in the domain neither by content nor by name is told."""
    original = paint(tmp_path / "again", 20, seed=5, shift=30, flat=True)
    images = gallery.images[:3]
    for number, image in enumerate(images):
        (tmp_path / "sorted" / image.name[0]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "sorted" / image.name[0] / f"{number}.png").write_bytes((original / image.name).read_bytes())
    assert match_rows(gallery, read_rows(tmp_path / "sorted")).labels == {image.id: image.name[0] for image in images}
    (tmp_path / "sorted" / "a" / "stranger.png").write_bytes(b"something else")
    with pytest.raises(LabelsRefused) as refused:
        match_rows(gallery, read_rows(tmp_path / "sorted"))
    assert refused.value.problems == ("a/stranger.png: camera-7 has no image stranger.png",)
    with pytest.raises(LabelsRefused):
        find_images(gallery, ["stranger.png"])


def test_a_name_of_two_images_is_told(store, gallery):
    """Two drops may bring files of one name: then the hash tells them apart."""
    from dataclasses import replace

    from adaptd.labels.reading import Row

    twins = replace(gallery, learned=(*gallery.learned, replace(gallery.learned[0], id=9999, sha256="f" * 64)))
    name = gallery.learned[0].name
    with pytest.raises(LabelsRefused) as refused:
        match_rows(twins, [Row("line 2", name, "a")])
    assert refused.value.problems == (f"line 2: {name} may be 2 images of camera-7: give its path in the drop, or its SHA-256",)
    assert match_rows(twins, [Row("line 2", "f" * 64, "a")]).labels == {9999: "a"}


def test_purposes_are_never_mixed(store, gallery, camera):
    """Whatever is asked for: held-out images measure, others teach, and an episode that may be taught sees the latter alone."""
    labels = {image.id: image.name[0] for image in gallery.images}
    counts = import_labels(store, "camera-7", labels, "all.csv", teach=False)
    assert counts == {Purpose.MEASURE: len(gallery.held_out), Purpose.TEACH: len(gallery.learned)}
    with store.reading() as tx:
        episode = max(tx.episodes.list_all(), key=lambda each: each.id)
        fresh = type(episode)(**{name: getattr(episode, name) for name in episode.__slots__} | {"started_at": None})
        materials = read_materials(tx, Layout(camera.state), fresh, teach=True)
        untaught = read_materials(tx, Layout(camera.state), fresh)
    taught = materials.open_data().memories[-1]
    assert set(taught.ids.tolist()) == {image.id for image in gallery.learned}
    assert set(taught.ids.tolist()).isdisjoint(image.id for image in gallery.held_out)
    assert [gallery.classes[label] for label in taught.labels] == [labels[key] for key in taught.ids.tolist()]
    assert len(untaught.open_data().memories) == len(materials.open_data().memories) - 1
    measured = materials.images.open_test(materials.domain)
    assert set(measured.ids.tolist()) == {image.id for image in gallery.held_out}


def test_labels_follow_a_change_and_undo(store, gallery):
    """What was measured is forgotten with a change, below the least number nothing is to be measured, estimates stay."""
    labels = {image.id: image.name[0] for image in gallery.held_out[: LEAST_LABELS + 1]}
    import_labels(store, "camera-7", labels, "some.csv", teach=False)
    with store.reading() as tx:
        assert [version.version for version in list_unmeasured(tx)[gallery.domain.id]] == [1, 2]
        assert describe_labels(tx, "camera-7", 0.95)["missing"] == 0
    assert remove_labels(store, "camera-7", list(labels)[:2]) == 2
    with store.reading() as tx:
        assert list_unmeasured(tx) == {}
        about = describe_labels(tx, "camera-7", 0.95)
        assert (about["missing"], about["held_out"]) == (1, len(gallery.held_out))
        assert (tell_shortage(0), tell_shortage(LEAST_LABELS)) == ("", "")
        assert "drop more images" in tell_shortage(LEAST_LABELS - 1)
        assert {a.kind for a in tx.accuracies.list_all() if a.domain_id == gallery.domain.id} == {AccuracyKind.ESTIMATED}


def test_the_daemon_measures_once_people_pause(store, gallery):
    """What is there at the start at once; a change only after a while of stillness; a failure not again for long."""
    labels = {image.id: image.name[0] for image in gallery.held_out}
    import_labels(store, "camera-7", labels, "all.csv", teach=False)
    job = Job(JobKind.MEASURE, gallery.domain.id, "camera-7")
    watch = LabelWatch(still_seconds=0.2)
    with store.reading() as tx:
        assert watch.look(tx) == [job]
    remove_labels(store, "camera-7", list(labels)[:1])
    with store.reading() as tx:
        assert watch.look(tx) == []
        time.sleep(0.25)
        assert watch.look(tx) == [job]
        watch.note_end(JobEnd(JobOutcome.FAILED, "the weights are gone"))
        assert watch.look(tx) == []
    remove_labels(store, "camera-7", labels)
    with store.reading() as tx:
        assert LabelWatch().look(tx) == []


def test_labels_outlive_an_import_of_the_same_delivery(camera, store, paint, tmp_path):
    """A delivery whose episode ended without a version is written anew; what people labelled keeps its label."""
    folder = paint(tmp_path / "camera-9", 10, seed=3, flat=True)
    importer = Importer(load_project(camera.root, environ=FAST), store)
    imported = importer.import_domain(folder, "camera-9", None)
    with store.writing() as tx:
        given = {image.id: image.name[0] for image in read_gallery(tx, "camera-9").images}
        before = tx.labels.give(imported.episode.domain_id, given)
        tx.episodes.cancel(imported.episode.id, "no more")
    importer.import_domain(folder, "camera-9", None)
    with store.reading() as tx:
        gallery = read_gallery(tx, "camera-9")
    assert {image.name[0] for image in gallery.images} == set("abc")
    assert all(gallery.labels[image.id].label == image.name[0] for image in gallery.images)
    assert Counter(label.purpose for label in gallery.labels.values()) == before
    assert all(gallery.labels[image.id].purpose is Purpose.MEASURE for image in gallery.held_out)


def test_doubt_is_greatest_where_models_disagree():
    """Then where the last one is least sure."""
    first, last = np.array([[5.0, 0], [5, 0], [5, 0]], np.float32), np.array([[5.0, 0], [0.1, 0], [0, 5]], np.float32)
    assert np.argsort(-find_doubt(first, last)).tolist() == [2, 1, 0]


def test_the_interval_shrinks_with_every_label():
    """At worst ± 10 points from about 100."""
    widths = [half_width(n, 0.95) for n in range(1, 120)]
    assert all(after <= before + 0.01 for before, after in itertools.pairwise(widths))
    assert half_width(0, 0.95) is None
    assert half_width(100, 0.95) < 0.1


def test_the_page_leads_to_a_measured_column_and_back(camera, tmp_path):
    """Each command of docs/labels.md: every row measured, with intervals; wrong labels change nothing; undo undoes."""
    template, take, show, matrix, remove = (c.words[1:] for c in list_commands(REPOSITORY / "docs" / "labels.md"))
    before = read_matrix(camera)
    assert "measure.csv: 30 images, 0 labelled" in camera.does(*template, cwd=tmp_path).stdout
    folder = tmp_path / "labels-camera-7"
    assert len(list(folder.glob("measure-*.png"))) == 2
    assert min(Image.open(folder / "measure-0001.png").size) > 300
    bad = write(tmp_path / "bad.csv", "nobody.png,a")
    assert "nothing was taken" in camera.refuses("labels", "import", "camera-7", bad)
    assert camera.rows("SELECT count(*) FROM labels") == [(0,)]
    rows = fill_in(folder / "measure.csv")
    said = camera.does(*take, cwd=tmp_path).stdout
    assert "30 labels taken: 30 to measure on" in said
    assert "estimates had been off by" in said
    assert [row[1] for row in read_matrix(camera)["kind"]] == ["measured", "measured"]
    entries = camera.rows(MEASURED)
    assert [(version, n) for version, n, *_ in entries] == [(1, 30), (2, 30)]
    assert all(low <= correct / n <= high and low < high for _, n, correct, low, high in entries)
    assert "30 labels to measure on: known to" in camera.does(*show).stdout
    assert "30 labels to measure on" in camera.does("explain", "camera-7").stdout
    camera.does(*matrix)
    wrong = {"a": "b", "b": "a", "c": "c"}
    camera.does("labels", "import", "camera-7", write(tmp_path / "other.csv", *(f"{name},{wrong[c]}" for name, c in rows)))
    assert camera.rows(MEASURED) != entries
    assert "30 labels taken back" in camera.does(*remove).stdout
    assert read_matrix(camera) == before
    assert json.loads(camera.does("fsck", "--json").stdout)["clean"]


def test_a_new_version_is_measured_on_given_labels_too(camera, store, gallery, paint, tmp_path):
    """The episode after records both what it estimates and what it measures, learns from taught labels, and stays sound."""
    labels = {image.id: image.name[0] for image in gallery.images}
    import_labels(store, "camera-7", labels, "all.csv", teach=False)
    folder = paint(tmp_path / "camera-7", 12, seed=6, shift=30, flat=True)
    camera.does("adapt", folder, "--domain", "camera-7", env=HELD_OUT | {"ADAPTD_LABELS__TRAIN": "true"})
    kinds = camera.rows("SELECT kind, n FROM accuracies WHERE version = 3 AND domain_id = 2 ORDER BY kind DESC")
    assert kinds[0] == ("measured", len(gallery.held_out))
    assert kinds[1][0] == "estimated"
    assert json.loads(camera.does("fsck", "--json").stdout)["clean"]


def test_a_finished_domain_is_taught_by_retry(camera, store, gallery, tmp_path):
    """Labels to teach get it another episode on the images it has; without any, or unless they may teach, the reason is told."""
    assert "camera-7 would end as before" in camera.refuses("retry", "camera-7", env=HELD_OUT), "its version was rejected"
    camera.does("promote", 2, "--force", "--why", "a test")
    assert "no labels came to teach it since its last episode" in camera.refuses("retry", "camera-7")
    kept = {path: path.stat().st_mtime_ns for path in (camera.state / "checks").iterdir()}
    import_labels(store, "camera-7", {image.id: image.name[0] for image in gallery.learned[:12]}, "teach.csv", teach=True)
    assert "labels.train is false" in camera.refuses("retry", "camera-7")
    taught = {"ADAPTD_LABELS__TRAIN": "true"}
    assert "12 labels came to teach it" in camera.does("retry", "camera-7", env=taught).stdout
    camera.does("adapt", tmp_path, "--domain", "camera-7", env=HELD_OUT | taught)
    assert camera.rows("SELECT delivery, state FROM episodes WHERE domain_id = 2 ORDER BY id") == [(1, "done"), (1, "done")]
    assert camera.rows("SELECT count(*), count(DISTINCT image_id) FROM memories WHERE domain_id = 2")[0] == (20, 20)
    assert "no labels came to teach it since its last episode" in camera.refuses("retry", "camera-7", env=taught)
    assert {path: path.stat().st_mtime_ns for path in (camera.state / "checks").iterdir()} == kept != {}
    assert json.loads(camera.does("fsck", "--json").stdout)["clean"]


def test_what_taught_is_never_measured_on(shop, paint, tmp_path):
    """In a domain without held-out images a label that taught, was taken back and is given again, teaches."""
    chosen = {"ADAPTD_EVALUATION__HELD_OUT": "0", "ADAPTD_LABELS__TRAIN": "true"}
    folder = paint(tmp_path / "camera-7", 20, seed=5, shift=30, flat=True)
    project = load_project(shop.root, environ=FAST | chosen)
    with Store(shop.state / "adaptd.db") as store:
        Importer(project, store).import_domain(folder, "camera-7", None)
        with store.reading() as tx:
            first, second = (image.id for image in read_gallery(tx, "camera-7").learned[:2])
        import_labels(store, "camera-7", {first: "a"}, "teach.csv", teach=True)
        shop.does("adapt", folder, env=chosen)
        remove_labels(store, "camera-7", [first])
        with store.reading() as tx:
            assert {image.id for image in read_gallery(tx, "camera-7").measurable()} & {first, second} == {second}
        counts = import_labels(store, "camera-7", {first: "a", second: "a"}, "all.csv", teach=False)
    assert counts == {Purpose.MEASURE: 1, Purpose.TEACH: 1}
