"""`adaptd source import` with a model that is there already, and what a person sees while it trains."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open


@pytest.fixture
def pictures(tmp_path) -> Path:
    """Two classes, told apart by which half is bright."""
    draw = np.random.default_rng(0)
    for number in range(40):
        image = draw.integers(0, 60, (32, 32, 3))
        image[:, 16 * (number % 2) : 16 * (number % 2) + 16] += 120
        place = tmp_path / "pictures" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype(np.uint8)).save(place / f"{number}.png")
    return tmp_path / "pictures"


def test_a_given_model_is_taken_as_it_is(adaptd, project, pictures, tmp_path):
    """With --epochs 0 the weights of one project become version 1 of another, equally good."""
    run = adaptd("--project", project, "source", "import", pictures, "--epochs", "3", "--json")
    assert run.returncode == 0, run.stderr
    assert "measured" in run.stderr
    trained = json.loads(run.stdout)
    (weights,) = (project / "state" / "weights").glob("*.safetensors")
    shutil.copy(weights, tmp_path / "given.safetensors")
    adaptd("init", tmp_path / "other", "--backbone", "lenet5")
    words = ["--project", tmp_path / "other", "source", "import", pictures, "--epochs", "0"]
    refused = adaptd(*words)
    assert refused.returncode == 1
    assert "needs --weights" in refused.stderr
    taken = adaptd(*words, "--weights", tmp_path / "given.safetensors", "--json")
    assert taken.returncode == 0, taken.stderr
    document = json.loads(taken.stdout)
    assert document["report"]["steps"] == 0
    assert document["matrix"]["R"] == trained["matrix"]["R"]


def test_a_source_starts_from_the_weights_of_a_package(adaptd, pictures, tmp_path):
    """From `init` to a source without a network; and the encoder is ImageNet's: one small step away from it, and so at chance."""
    shop = tmp_path / "photographs"
    assert adaptd("init", shop, "--backbone", "efficientnet_lite0").returncode == 0
    small = {"ADAPTD_MODEL__IMAGE_SIZE": "32", "ADAPTD_SOURCE__LEARNING_RATE": "1e-6", "ADAPTD_TRAINING__THREADS": "1"}
    environment = small | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = adaptd("--project", shop, "source", "import", pictures, "--epochs", "1", "--force", "--json", env=environment)
    assert run.returncode == 0, run.stderr
    (trained,) = (shop / "state" / "weights").glob("*.safetensors")
    with (
        safe_open(trained, "pt") as file,
        safe_open(tmp_path / "cache/adaptd/weights/package/efficientnet_lite0.safetensors", "pt") as kept,
    ):
        found, published = file.get_tensor("encoder.conv_stem.weight"), kept.get_tensor("conv_stem.weight")
    assert (found - published).abs().max() < 1e-4


def test_what_will_be_done_and_how_long_it_takes_is_told_first(adaptd, project, pictures):
    """Images, epochs, steps and the device; after a few steps the time; then every phase until the version is there."""
    run = adaptd("--project", project, "source", "import", pictures, "--epochs", "12", env={"ADAPTD_TRAINING__THREADS": "1"})
    assert run.returncode == 0, run.stderr
    lines = run.stderr.splitlines()
    planned = lines.index("source: 32 labelled images to learn from; 12 epochs of 1 step; lenet5 at 32 px on cpu, 1 thread")
    (promised,) = (number for number, line in enumerate(lines) if line.startswith("about "))
    assert lines[promised].endswith("to go: 7 steps, then evaluating and exporting")
    assert planned < promised < lines.index("episode 0: exporting")
