"""Digits on photographs, without labels: is what gets worse noticed? `python -m benchmarks.mnist_m_unlabelled --help`.

For each seed a project of its own, through the command line, with the product's defaults: an MNIST model from 2,000 images, then
MNIST-M dropped without labels. The truth, which the product never sees, is measured afterwards. Finished seeds are not run again.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from adaptd.bench.recipes import data_folder, load_digits
from adaptd.evaluation.evaluator import measure
from adaptd.files import replace_file
from adaptd.learning.weights import load_classifier
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import load_project
from adaptd.project.layout import Layout
from adaptd.records import DomainState
from adaptd.store import Store

SOURCE_IMAGES = 2000
WORSE = 0.01
"""A true loss that must not be published."""


def main() -> None:
    """Run the seeds that are missing, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("bench-mnist-m"))
    parser.add_argument("--seeds", default=",".join(map(str, range(10))))
    parser.add_argument("--images", type=int, default=2000, help="of MNIST-M, dropped without labels")
    chosen = parser.parse_args()
    recipe = load_digits(data_folder(chosen.data), ("mnist", "mnistm"))
    source, target = recipe.domains
    results = []
    for seed in map(int, chosen.seeds.split(",")):
        file = chosen.out / f"seed-{seed}.json"
        if not file.exists():
            folder = chosen.out / f"project-{seed}"
            _write(_draw(source.train, SOURCE_IMAGES, seed), folder.with_name(f"mnist-{seed}"), labelled=True)
            _write(_draw(target.train, chosen.images, seed), folder.with_name(f"mnistm-{seed}"), labelled=False)
            replace_file(file, json.dumps(_run(folder, seed, target.test)).encode())
        results.append({"seed": seed} | json.loads(file.read_text(encoding="utf-8")))
        sys.stdout.write(f"{json.dumps(results[-1])}\n")
        sys.stdout.flush()
    bad = [result["seed"] for result in results if result["promoted"] and result["after"] < result["before"] - WORSE]
    sys.stdout.write(f"{len(results)} seeds, published though truly more than a point worse: {bad or 'none'}\n")


def _run(folder: Path, seed: int, test: ImageSet) -> dict[str, Any]:
    """Source, drop, and what came of it."""
    if not (folder / "adaptd.toml").exists():
        _adaptd(seed, "init", folder, "--backbone", "lenet")
    # One that an interrupted run has imported already is refused, and there.
    _adaptd(seed, "--project", folder, "source", "import", folder.with_name(f"mnist-{seed}"), check=False)
    said = _adaptd(seed, "--project", folder, "adapt", folder.with_name(f"mnistm-{seed}"), "--domain", "mnistm", check=False)
    project = load_project(folder)
    with Store(f"sqlite:///{project.state}/adaptd.db") as store, store.reading() as tx:
        versions = tx.versions.list_all()
        domain = next(domain for domain in tx.domains.list_all() if domain.name == "mnistm")
        estimates = {
            f"{entry.version} {entry.estimator}": round(entry.value, 3)
            for entry in tx.accuracies.list_all()
            if entry.domain_id == domain.id
        }
    if domain.state not in {DomainState.DONE, DomainState.FAILED}:
        raise RuntimeError(f"{domain.name} is {domain.state}, so the seed is not over: {said[-500:]}")
    state = Layout(project.state).state
    true = [measure(load_classifier(state / version.weights_path), test, 512).accuracy for version in versions]
    newest = versions[-1]
    return {
        "before": true[0],
        "after": true[-1],
        "promoted": len(versions) > 1 and newest.state == "promoted",
        "reasons": list(newest.gate.reasons) if newest.gate else [],
        "domain": f"{domain.state}: {domain.reason}",
        "estimates": estimates,
        "said": said[-500:],
    }


def _adaptd(seed: int, *words: object, check: bool = True) -> str:
    settings = {"ADAPTD_TRAINING__SEED": str(seed), "ADAPTD_TRAINING__THREADS": os.environ.get("ADAPTD_TRAINING__THREADS", "1")}
    command = [sys.executable, "-m", "adaptd.cli.main", *map(str, words)]
    run = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    if check and run.returncode:
        raise RuntimeError(run.stderr)
    return run.stdout + run.stderr


def _draw(images: ImageSet, count: int, seed: int) -> ImageSet:
    rows = np.random.default_rng(seed).permutation(len(images))[:count]
    assert images.labels is not None
    return ImageSet(images.ids[rows], images.pixels[rows], images.labels[rows])


def _write(images: ImageSet, folder: Path, *, labelled: bool) -> None:
    assert images.labels is not None
    for identity, pixels, label in zip(images.ids, images.pixels, images.labels, strict=True):
        place = folder / str(label) if labelled else folder
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(place / f"{identity:05d}.png")


if __name__ == "__main__":
    main()
