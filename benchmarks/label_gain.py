"""What a few labels a domain add to ACC on Digits with labels.train. `python -m benchmarks.label_gain --help`.

Each cell is written when it is finished: the same command goes on where it stopped. Test labels choose nothing.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import numpy as np

from adaptd.bench.cell import Teach, run_cell, train_source
from adaptd.bench.recipes import BenchDomain, Recipe, data_folder, load_digits
from adaptd.evaluation.evaluator import predict
from adaptd.labels.doubt import find_doubt
from adaptd.learning.backbones import Classifier
from adaptd.learning.seeding import generator
from adaptd.learning.weights import load_classifier
from adaptd.library.cache import take
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import resolve_settings

CHOICES = ("none", "random", "doubt")


def shorten(recipe: Recipe, images: int) -> Recipe:
    """The first so many training images of each domain, which are in no order; test sets stay whole."""
    few = [
        BenchDomain(d.name, ImageSet(d.train.ids[:images], d.train.pixels[:images], d.train.labels[:images]), d.test)
        for d in recipe.domains
        if d.train.labels is not None
    ]
    return Recipe(recipe.name, tuple(few), recipe.classes, recipe.settings, recipe.caveats)


def make_teacher(choice: str, labels: int, seed: int, source: Classifier) -> Teach | None:
    """Chooses images of a domain as `adaptd labels template` does for teach.csv, or at random."""
    if choice == "none":
        return None

    def teach(domain: BenchDomain, model: Classifier) -> ImageSet:
        images = domain.train.unlabelled()
        if choice == "random":
            order = np.random.default_rng(generator(seed, "labels", domain.name).initial_seed()).permutation(len(images))
        else:
            order = np.argsort(-find_doubt(predict(source, images, 512), predict(model, images, 512)), kind="stable")
        return take(domain.train, images.ids[order[:labels]].tolist())

    return teach


def main() -> None:
    """Run what is missing, then print the table of everything there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("bench-labels"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--method", default="guarded")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--images", type=int, default=10**9, help="training images of each domain, at most")
    parser.add_argument("--labels", type=int, default=50, help="of each domain")
    parser.add_argument("--only", default=",".join(CHOICES))
    chosen = parser.parse_args()
    recipe = shorten(load_digits(data_folder(chosen.data)), chosen.images)
    folder = chosen.out / f"{chosen.method}-{chosen.epochs}-{chosen.images}-{chosen.labels}"
    folder.mkdir(parents=True, exist_ok=True)
    for seed in map(int, chosen.seeds.split(",")):
        settings = resolve_settings(recipe.settings, {"training.epochs": chosen.epochs, "training.seed": seed})
        source = folder / f"source-{seed}.safetensors"
        for choice in chosen.only.split(","):
            file = folder / f"{choice}-{seed}.json"
            if file.exists():
                continue
            train_source(recipe, settings, source, show)
            teach = make_teacher(choice, chosen.labels, seed, load_classifier(source))
            file.write_text(json.dumps(run_cell(recipe, settings, chosen.method, source, show, teach=teach)))
    tell(folder)


def show(title: str, step: int, steps: int) -> None:
    """A line at the end of each episode."""
    if step == steps:
        print(f"{title}: {steps} steps", file=sys.stderr, flush=True)


def tell(folder: Path) -> None:
    """ACC over the targets, ACC and each domain at the end: means over seeds, in percent."""
    for choice in CHOICES:
        cells = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{choice}-*.json"))]
        if cells:
            last = [100 * statistics.mean(cell["R"][-1][j] for cell in cells) for j in range(len(cells[0]["domains"]))]
            accs = [100 * cell["acc"] for cell in cells]
            each = "  ".join(f"{name} {value:.1f}" for name, value in zip(cells[0]["domains"], last, strict=True))
            spread = f" ± {statistics.stdev(accs):.1f}" if len(accs) > 1 else ""
            print(f"{choice:8} seeds {len(cells)}  ACC {statistics.mean(accs):.1f}{spread}  {each}")


if __name__ == "__main__":
    main()
