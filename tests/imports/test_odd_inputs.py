"""Folders, files and settings that a hostile or unlucky user brings: each works, or gives one clear error and leaves no trace."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

REPOSITORY = Path(__file__).resolve().parents[2]


def recorded(shop) -> list:
    """All that an import could leave half-done."""
    tables = ("domains", "images", "quarantine", "episodes", "versions", "memories", "accuracies", "checkpoints")
    caches = sorted(path.name for path in (shop.state / "cache").glob("*"))
    return [*([(table, *row) for row in shop.rows(f"SELECT * FROM {table}")] for table in tables), caches]


class TestSource:
    def test_a_folder_without_images(self, empty_shop, tmp_path):
        """An empty folder, a missing one, a file: each is named, and nothing is recorded."""
        (tmp_path / "empty").mkdir()
        (tmp_path / "file").touch()
        before = recorded(empty_shop)
        for name, fact in (("empty", "has no class folders"), ("missing", "does not exist"), ("file", "is not a folder")):
            error = empty_shop.refuses("source", "import", tmp_path / name)
            assert fact in error
            assert str(tmp_path / name) in error
        assert recorded(empty_shop) == before

    def test_one_class_is_too_few(self, empty_shop, paint, tmp_path):
        """A classifier needs two classes, whether the second is absent, empty, or has no usable file."""
        folder = paint(tmp_path / "one", 5, seed=3, classes="a")
        assert "only one class, 'a'" in empty_shop.refuses("source", "import", folder)
        (folder / "b").mkdir()
        assert "only one class, 'a'" in empty_shop.refuses("source", "import", folder)
        (folder / "b" / "1.png").write_bytes(b"no image")
        error = empty_shop.refuses("source", "import", folder)
        assert "class 'b' has no usable training image" in error
        assert "'b/1.png', not-an-image" in error
        assert recorded(empty_shop)[:-1] == [[]] * 8

    def test_an_empty_class_folder(self, empty_shop, paint, tmp_path):
        """It would quietly make a model of fewer classes; removing it helps."""
        folder = paint(tmp_path / "photos", 5, seed=3, classes="ab")
        (folder / "c").mkdir()
        assert f"{folder}/c is a class folder without images" in empty_shop.refuses("source", "import", folder)
        (folder / "c").rmdir()
        empty_shop.does("source", "import", folder)

    def test_a_test_class_nobody_trains(self, empty_shop, paint, tmp_path):
        """Test images of a class without training images are refused."""
        folder = paint(tmp_path / "photos", 5, seed=3, classes="ab")
        paint(folder / "_test", 2, seed=4, classes="abc")
        assert "class 'c' has no usable training image" in empty_shop.refuses("source", "import", folder)

    def test_too_few_for_a_test_set(self, empty_shop, paint, tmp_path):
        """With a single image of each class nothing is left to measure on."""
        folder = paint(tmp_path / "photos", 1, seed=3, classes="ab")
        assert "and a test image, not 2 training images" in empty_shop.refuses("source", "import", folder)
        paint(folder, 2, seed=5, classes="ab")
        empty_shop.does("source", "import", folder)

    def test_a_class_that_the_settings_do_not_list(self, empty_shop, source):
        """model.classes decides; the remedy is in the settings, so the exit code says configuration."""
        error = empty_shop.refuses("source", "import", source, code=5, env={"ADAPTD_MODEL__CLASSES": "a,b"})
        assert "class 'c' that model.classes does not list" in error
        empty_shop.does("source", "import", source)

    def test_it_is_imported_once(self, shop, source):
        """A second source is refused before anything is decoded."""
        before = recorded(shop)
        assert "imported already" in shop.refuses("source", "import", source)
        assert recorded(shop) == before


class TestWeights:
    def test_a_missing_file(self, empty_shop, source, tmp_path):
        """It is noticed before the images are read, and nothing is recorded."""
        before = recorded(empty_shop)
        error = empty_shop.refuses("source", "import", source, "--weights", tmp_path / "none.safetensors")
        assert str(tmp_path / "none.safetensors") in error
        assert recorded(empty_shop) == before
        empty_shop.does("source", "import", source)

    @pytest.mark.parametrize("content", [b"not safetensors at all", None], ids=["not-safetensors", "other-shapes"])
    def test_a_file_that_does_not_fit(self, empty_shop, source, tmp_path, content):
        """The episode is set aside with its reason, and a corrected command starts anew with the same images."""
        file = tmp_path / "w.safetensors"
        if content is None:
            save_file({"classifier.weight": torch.zeros(7, 7)}, file)
        else:
            file.write_bytes(content)
        assert str(file) in empty_shop.refuses("source", "import", source, "--weights", file)
        assert empty_shop.status()["episode"] is None
        assert empty_shop.rows("SELECT state FROM domains") == [("failed",)]
        assert empty_shop.leftovers() == []
        empty_shop.does("source", "import", source)
        assert empty_shop.rows("SELECT name, state, reason, position, images FROM domains") == [("source", "done", None, 0, 60)]
        assert empty_shop.rows("SELECT count(*) FROM images") == [(60,)]
        assert empty_shop.status()["matrix"]["episodes"] == [0]
        assert empty_shop.leftovers() == []

    def test_a_corrected_folder_replaces_the_failed_one(self, empty_shop, source, paint, tmp_path):
        """After a failure nothing of the first folder remains, not even the labels of images that are in both."""
        first = paint(tmp_path / "first", 6, seed=7, classes="ab")
        second = paint(tmp_path / "second", 6, seed=8, classes="xy")
        for number, label in enumerate("xy"):
            shutil.copytree(first / "ab"[number], second / label, dirs_exist_ok=True)
        (tmp_path / "w").write_bytes(b"rubbish")
        empty_shop.refuses("source", "import", first, "--weights", tmp_path / "w")
        empty_shop.does("source", "import", second)
        assert empty_shop.rows("SELECT DISTINCT label FROM images ORDER BY label") == [("x",), ("y",)]
        assert empty_shop.rows("SELECT images FROM domains") == [(24,)]
        assert empty_shop.leftovers() == []

    def test_weights_of_the_settings_are_found_from_the_project(self, empty_shop, source):
        """A relative model.weights is relative to the project folder, like every path in adaptd.toml."""
        save_file({"classifier.weight": torch.zeros(3, 84)}, empty_shop.root / "start.safetensors")
        empty_shop.does("source", "import", source, env={"ADAPTD_MODEL__WEIGHTS": "start.safetensors"})

    def test_an_unknown_backbone(self, empty_shop, source):
        """A setting that stops the episode can be corrected afterwards."""
        error = empty_shop.refuses("source", "import", source, code=5, env={"ADAPTD_MODEL__BACKBONE": "lenet6"})
        assert "'lenet6'" in error
        empty_shop.does("source", "import", source)
        assert empty_shop.leftovers() == []


class TestDomain:
    def test_before_the_source(self, empty_shop, night):
        """There is nothing to adapt."""
        before = recorded(empty_shop)
        assert "run `adaptd source import DIR` first" in empty_shop.refuses("adapt", night)
        assert recorded(empty_shop) == before

    def test_too_few_images(self, shop, paint, tmp_path):
        """Fewer than the minimum is an error that counts; with more the same command works."""
        folder = paint(tmp_path / "fog", 2, seed=10, flat=True)
        (folder / "x.gif").write_bytes(b"GIF89a")
        before = recorded(shop)
        error = shop.refuses("adapt", folder)
        assert "intake.minimum_images is 16: 6 training images, 0 duplicates, 1 rejected (the first: 'x.gif'" in error
        assert recorded(shop) == before
        shop.does("adapt", folder, env={"ADAPTD_INTAKE__MINIMUM_IMAGES": "1"})
        ((kept,),) = shop.rows("SELECT count(*) FROM memories")
        assert 0 < kept <= 6

    def test_nothing_in_it(self, shop, tmp_path):
        """A folder without files, or with none that is an image."""
        folder = tmp_path / "fog"
        folder.mkdir()
        before = recorded(shop)
        assert "holds no files" in shop.refuses("adapt", folder)
        (folder / "a.jpg").write_text("text")
        assert "0 training images" in shop.refuses("adapt", folder)
        assert recorded(shop) == before

    def test_a_class_missing_from_the_target(self, shop, paint, tmp_path):
        """The target may lack classes, in its images and in its tests."""
        folder = paint(tmp_path / "fog", 10, seed=10, classes="ab", flat=True)
        paint(folder / "_test", 3, seed=11, classes="a")
        shop.does("adapt", folder)
        assert shop.status()["matrix"]["n"][1] == [12, 3]

    def test_tests_of_an_unknown_class(self, shop, paint, tmp_path):
        """Told before anything is decoded; without that folder it works."""
        folder = paint(tmp_path / "fog", 10, seed=10, flat=True)
        tests = paint(tmp_path / "tests", 3, seed=11, classes="az")
        before = recorded(shop)
        error = shop.refuses("adapt", folder, "--test", tests)
        assert "a class 'z' that the source does not know" in error
        assert recorded(shop) == before
        shutil.rmtree(tests / "z")
        shop.does("adapt", folder, "--test", tests)

    def test_pictures_of_every_kind(self, shop, paint, tmp_path):
        """Grey, alpha, 16-bit, CMYK, animated and 1×1 are taken; bombs, text, links and odd names are dealt with by name."""
        folder = paint(tmp_path / "fog", 6, seed=10, flat=True)
        picture = Image.fromarray(np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3))
        for name, mode in (("grey.png", "L"), ("alpha.png", "RGBA"), ("cmyk.jpg", "CMYK"), ("palette.gif", "P")):
            picture.convert(mode).save(folder / name)
        Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30)).save(folder / "sixteen.png")
        picture.save(folder / "film.gif", save_all=True, append_images=[picture.rotate(90), picture.rotate(180)])
        picture.resize((1, 1)).save(folder / "dot.png")
        Image.new("1", (20_000, 20_000)).save(folder / "huge.png")
        (folder / "link.png").symlink_to(folder / "dot.png")
        os.mkfifo(folder / "pipe.png")
        (folder / os.fsdecode(b"caf\xe9 [red].png")).write_bytes((folder / "dot.png").read_bytes() + b"\0")
        (folder / os.fsdecode(b"\xff.jpg")).write_bytes(b"no image")
        shop.does("adapt", folder)
        names = {name for (name,) in shop.rows("SELECT name FROM images WHERE domain_id = 2")}
        odd = {"grey.png", "alpha.png", "cmyk.jpg", "palette.gif", "sixteen.png", "film.gif", "dot.png", r"caf\xe9 [red].png"}
        assert {name for name in names if name[1] != "-"} == odd
        assert dict(shop.rows("SELECT name, reason FROM quarantine")) == {
            "huge.png": "too-many-pixels",
            "link.png": "not-a-file",
            "pipe.png": "not-a-file",
            r"\xff.jpg": "not-an-image",
        }
        assert shop.status()["queue"][0]["quarantined"] == 4

    def test_files_outside_class_folders(self, empty_shop, source, paint, tmp_path):
        """In a source and in a test set they have no class and are quarantined, all else goes on."""
        photos = tmp_path / "photos"
        shutil.copytree(source, photos)
        paint(photos, 1, seed=20, flat=True)
        empty_shop.does("source", "import", photos)
        folder = paint(tmp_path / "fog", 10, seed=10, flat=True)
        paint(folder / "_test", 1, seed=11)
        paint(folder / "_test", 1, seed=12, flat=True)
        empty_shop.does("adapt", folder)
        reasons = empty_shop.rows(
            "SELECT domain_id, reason, count(*) FROM quarantine GROUP BY domain_id, reason ORDER BY domain_id"
        )
        assert reasons == [(1, "no-class", 3), (2, "no-class", 3)]

    def test_an_unreadable_folder(self, shop, paint, tmp_path):
        """One line that names it; when it may be read, the same command works."""
        folder = paint(tmp_path / "fog", 10, seed=10, flat=True)
        folder.chmod(0)
        command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(shop.root), "adapt", str(folder)]
        if os.geteuid() == 0:  # root may read everything unless it gives that up
            if shutil.which("setpriv") is None:
                pytest.skip("setpriv (util-linux) is needed to test permissions as root")
            command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
        environment = os.environ | {
            "PYTHONPATH": str(REPOSITORY),
            "ADAPTD_MODEL__IMAGE_SIZE": "16",
            "ADAPTD_MODEL__PROJECTOR_HIDDEN": "16",
        }
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        folder.chmod(0o755)
        assert (run.returncode, run.stderr.count("\n")) == (1, 1), run.stderr
        assert f"{folder}: Permission denied" in run.stderr
        shop.does("adapt", folder)

    @pytest.mark.parametrize("name", ["", "source", "Source", "../up", ".hidden", " "])
    def test_bad_names(self, shop, night, name):
        """A name that no folder of the inbox can have, or that is the source's, is refused with the rule."""
        assert "is not a name for a domain" in shop.refuses("adapt", night, "--domain", name, code=5)

    def test_the_name_comes_from_the_folder(self, shop, paint, tmp_path):
        """It is the folder's, as its user wrote it; a folder called source needs a name."""
        shop.does("adapt", paint(tmp_path / "Camera 7 (Süd)", 10, seed=10, flat=True))
        assert shop.status()["queue"][0]["domain"] == "Camera 7 (Süd)"
        assert "--domain NAME" in shop.refuses("adapt", paint(tmp_path / "source", 10, seed=11, flat=True), code=5)

    def test_an_unknown_method(self, shop, night):
        """The choices are listed, and nothing is recorded."""
        before = recorded(shop)
        assert "choose one of grcl, contrastive+sdc" in shop.refuses("adapt", night, "--method", "magic", code=5)
        assert recorded(shop) == before

    @pytest.mark.parametrize(
        ("key", "value"), [("IMAGE_SIZE", "20"), ("BACKBONE", "lenet"), ("CLASSES", "c,b,a"), ("PROJECTOR_HIDDEN", "32")]
    )
    def test_a_model_changed_under_way(self, shop, night, key, value):
        """What a model was made with cannot change; set back, the same command works."""
        before = recorded(shop)
        error = shop.refuses("adapt", night, code=5, env={f"ADAPTD_MODEL__{key}": value})
        assert f"model.{key.lower()} is" in error
        assert "set it back, or make another project" in error
        assert recorded(shop) == before

    def test_without_labels_accuracies_are_estimates(self, shop, paint, tmp_path):
        """R's entries for the domain are marked, in JSON and for people."""
        shop.does("adapt", paint(tmp_path / "fog", 10, seed=10, flat=True))
        assert shop.status()["matrix"]["kind"] == [["measured", "estimated"], ["measured", "estimated"]]
        assert shop.rows("SELECT DISTINCT estimator FROM accuracies WHERE kind = 'estimated' ORDER BY 1") == [
            ("atc",),
            ("check",),
            ("range",),
        ]
        assert "~" in shop.does("matrix").stdout.split("┡")[1].split("└")[0]


class TestAgain:
    def test_the_same_folder_twice(self, adapted_shop, night):
        """The second time there is nothing new to learn, and nothing changes."""
        before = recorded(adapted_shop)
        assert f"every image of {night} was in domain night before" in adapted_shop.refuses("adapt", night)
        assert recorded(adapted_shop) == before

    def test_only_new_tests(self, adapted_shop, night, paint, tmp_path):
        """New test images without new images to learn from leave no half-recorded delivery."""
        before = recorded(adapted_shop)
        tests = paint(tmp_path / "tests", 2, seed=30)
        assert "nothing new to learn" in adapted_shop.refuses("adapt", night, "--test", tests)
        assert recorded(adapted_shop) == before

    def test_a_second_batch(self, shop, night, paint, tmp_path):
        """New files are a second episode on the same column of R; the memory is merged, and known files are told apart."""
        folder = tmp_path / "night"
        shutil.copytree(night, folder)
        roomy = {"ADAPTD_MEMORY__IMAGES_PER_DOMAIN": "70"}
        shop.does("adapt", folder, env=roomy)
        first = set(shop.rows("SELECT image_id, confidence FROM memories"))
        paint(folder, 7, seed=40, shift=60, flat=True)
        paint(folder / "_test", 2, seed=41, shift=60)
        run = shop.does("adapt", folder, env=roomy)
        assert "21 training and 6 test images" in run.stderr
        document = shop.status()
        assert document["matrix"]["domains"] == ["source", "night"]
        assert document["matrix"]["episodes"] == [0, 1, 2]
        assert document["matrix"]["n"] == [[12, 12], [12, 12], [12, 18]]
        assert (document["queue"][0]["images"], document["queue"][0]["quarantined"]) == (60 + 12 + 21 + 6, 1)
        memory = shop.rows("SELECT m.image_id, m.confidence, i.delivery FROM memories m JOIN images i ON i.id = m.image_id")
        assert (len(first), len(memory), {delivery for *_, delivery in memory}) == (60, 70, {1, 2})
        assert {(image, sure) for image, sure, delivery in memory if delivery == 1} <= first
        assert shop.leftovers() == []

    def test_a_small_second_batch_waits(self, shop, night, paint, tmp_path):
        """The minimum counts new images only."""
        folder = tmp_path / "night"
        shutil.copytree(night, folder)
        shop.does("adapt", folder)
        paint(folder, 2, seed=40, shift=60, flat=True)
        before = recorded(shop)
        error = shop.refuses("adapt", folder)
        assert "6 training images" in error
        assert "72 were in domain night before" in error
        assert recorded(shop) == before

    def test_duplicates_between_train_and_test(self, shop, paint, tmp_path):
        """A test image is never trained on, whichever delivery it came with."""
        folder = paint(tmp_path / "fog", 10, seed=10, flat=True)
        (folder / "_test" / "a").mkdir(parents=True)
        shutil.copy(folder / "a-10-000.png", folder / "_test" / "a" / "other-name.png")
        shop.does("adapt", folder)
        assert shop.rows("SELECT split, count(*) FROM images WHERE domain_id = 2 GROUP BY split") == [("test", 1), ("train", 29)]
        paint(folder, 10, seed=11, flat=True)
        shutil.copy(folder / "_test" / "a" / "other-name.png", folder / "again.png")
        shop.does("adapt", folder)
        assert shop.rows("SELECT split, count(*) FROM images WHERE domain_id = 2 GROUP BY split") == [("test", 1), ("train", 59)]

    def test_a_failed_episode_can_be_tried_again(self, shop, night):
        """Its delivery is not taken for learned: the same command with other settings works, and leaves one row of R."""
        explosive = {"ADAPTD_TRAINING__LEARNING_RATE": "1e30", "ADAPTD_TRAINING__MAX_NONFINITE_STEPS": "2"}
        error = shop.refuses("adapt", night, env=explosive)
        assert "lower the learning_rate" in error
        assert shop.status()["daemon"]["warnings"] == [f"domain night failed: {error.removeprefix('adaptd: ')}"]
        assert shop.leftovers() == []
        shop.does("adapt", night)
        assert shop.status()["daemon"]["warnings"] == []
        assert shop.status()["matrix"]["episodes"] == [0, 1]
        assert shop.rows("SELECT images, quarantined FROM domains WHERE name = 'night'") == [(72, 1)]
        assert shop.rows("SELECT count(*) FROM quarantine") == [(1,)]
        assert shop.leftovers() == []


class TestDamage:
    def test_weights_of_the_newest_version(self, shop, night):
        """Flipped bits are found by the hash in the store; put back, the same command works."""
        [(path,)] = shop.rows("SELECT weights_path FROM versions")
        file = shop.state / path
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        error = shop.refuses("adapt", night)
        assert "version 1" in error
        assert "damaged" in error
        file.unlink()
        assert "cannot read the weights of version 1" in shop.refuses("adapt", night)
        file.write_bytes(whole)
        shop.does("adapt", night)
        assert shop.leftovers() == []

    @pytest.mark.parametrize("cache", ["cache/1-1-train", "cache/1-1-test", "memory/2-2"])
    def test_a_missing_cache(self, adapted_shop, paint, tmp_path, cache):
        """Images that are gone are named, never taken for none; put back, the same command works."""
        folder = paint(tmp_path / "fog", 10, seed=10, flat=True)
        (adapted_shop.state / cache).rename(tmp_path / "away")
        error = adapted_shop.refuses("adapt", folder)
        assert str(adapted_shop.state / cache) in error
        (tmp_path / "away").rename(adapted_shop.state / cache)
        adapted_shop.does("adapt", folder)
        assert adapted_shop.leftovers() == []

    def test_checkpoints(self, shop, night, tmp_path):
        """A damaged newest one is passed over for the older, both are told, with none it starts afresh; the end is the same."""
        reference = shop.copy(tmp_path / "reference")
        reference.does("adapt", night)
        wanted = reference.rows("SELECT weights_sha256 FROM versions")
        for damaged in (1, 2):
            trial = shop.copy(tmp_path / str(damaged))
            interrupt_after(trial, 3, night)
            paths = [path for (path,) in trial.rows("SELECT path FROM checkpoints ORDER BY step DESC")]
            for path in paths[:damaged]:
                with (trial.state / path / "tensors.safetensors").open("r+b") as file:
                    file.seek(-1, os.SEEK_END)
                    file.write(b"\xee")
            run = trial.does("adapt", night)
            assert run.stderr.count("is damaged") == damaged
            assert ("starts afresh" in run.stderr) == (damaged == 2)
            assert "Traceback" not in run.stderr
            assert trial.rows("SELECT weights_sha256 FROM versions") == wanted
            assert trial.leftovers() == []


def interrupt_after(shop, steps: int, folder: Path) -> None:
    """Adapt, and be killed after some steps."""
    process = shop.start("adapt", folder)
    while shop.rows("SELECT coalesce(max(step), 0) FROM checkpoints")[0][0] < steps:
        assert process.is_running()
    process.kill()
    process.wait()


def test_json_is_all_there_is_on_standard_output(empty_shop, source):
    """With --json a program can read the result while people read the rest on standard error."""
    document = json.loads(empty_shop.does("source", "import", source, "--json").stdout)
    assert (document["schema"], document["episode"], document["version"]) == ("adaptd.episode/1", 0, 1)
