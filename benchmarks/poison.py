"""What drops that should never have come do to a Digits model: are they refused, and what if they were not?

`python -m benchmarks.poison --source bench-digits/source-0-….safetensors` prints R's row before, and after each drop with the
refusal switched off. With it on, a refused drop leaves the row as it is.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from adaptd.bench.recipes import Recipe, data_folder, load_digits
from adaptd.errors import DomainNotRecognised
from adaptd.evaluation.evaluator import measure
from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.methods.options import GuardedOptions
from adaptd.learning.plan import Plan
from adaptd.learning.weights import load_classifier
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import resolve_settings

COUNT = 2500


def make_drops(recipe: Recipe, data: Path) -> dict[str, ImageSet]:
    """Three poisons, and for comparison the real domains."""
    chance = np.random.default_rng(0)
    mnist = recipe.domains[1].train
    assert mnist.labels is not None
    pictures = sorted((data / "office_caltech10").rglob("*.jpg"))[:COUNT]
    office = [np.asarray(Image.open(path).convert("RGB").resize((32, 32))).transpose(2, 0, 1) for path in pictures]
    drops = {
        "noise": chance.integers(0, 256, (COUNT, 3, 32, 32), dtype=np.uint8),
        "coarse noise": chance.integers(0, 256, (COUNT, 3, 4, 4), dtype=np.uint8).repeat(8, 2).repeat(8, 3),
        "one class (MNIST's threes)": mnist.pixels[mnist.labels == 3],
        "wrong domain (Office-Caltech)": np.stack(office),
        **{domain.name: domain.train.pixels[:COUNT] for domain in recipe.domains[1:]},
    }
    return {name: ImageSet(np.arange(len(pixels), dtype=np.int64), pixels, None) for name, pixels in drops.items()}


def row(model: Classifier, recipe: Recipe) -> str:
    """Accuracies on the source and on every domain."""
    return " ".join(f"{100 * measure(model, domain.test, 512).accuracy:.1f}" for domain in recipe.domains)


def main() -> None:
    """Drop by drop, each on a fresh copy of the source model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    chosen = parser.parse_args()
    data = data_folder(chosen.data)
    recipe = load_digits(data)
    plan = Plan.for_adaptation(resolve_settings(recipe.settings, {"training.epochs": chosen.epochs}), "guarded")
    trusting = replace(plan, options=GuardedOptions(min_agreement=0.0))
    torch.set_num_threads(plan.threads)
    names = " ".join(domain.name for domain in recipe.domains)
    sys.stdout.write(f"| drop | refused | R's row without the refusal: {names} |\n| --- | --- | --- |\n")
    sys.stdout.write(f"| (none) | | {row(load_classifier(chosen.source), recipe)} |\n")
    for name, images in make_drops(recipe, data).items():
        said = "no"
        try:
            next(iter(Training(load_classifier(chosen.source), _data(recipe, images), plan)))
        except DomainNotRecognised as refusal:
            said = str(refusal).partition("recognition ")[2].partition(",")[0]
        model = load_classifier(chosen.source)
        for _ in Training(model, _data(recipe, images), trusting):
            pass
        sys.stdout.write(f"| {name} | {said if said == 'no' else f'yes, recognition {said}'} | {row(model, recipe)} |\n")
        sys.stdout.flush()


def _data(recipe: Recipe, images: ImageSet) -> EpisodeData:
    return EpisodeData(recipe.domains[0].train, (), images, recipe.domains[0].test)


if __name__ == "__main__":
    main()
