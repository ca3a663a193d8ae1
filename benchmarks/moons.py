"""Methods on a shift that can be drawn: two moons, and the same turned. `python -m benchmarks.moons --help`.

    python -m benchmarks.moons --seeds 0,1,2,3,4 --out benchmarks/out/moons

Loop, methods and their options are those of an episode. A point is an image of one pixel, whose red and green are its
coordinates; the encoder is three layers on them. Every method has as many steps, and a LeNet's rate for its update rule.
Accuracy is that on the target's points, whose labels no method sees.
"""

import argparse
import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn

from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.methods.registry import RATES
from adaptd.learning.plan import Plan
from adaptd.learning.settings import ModelSettings, SourceSettings, TrainingSettings
from adaptd.learning.survey import survey
from adaptd.library.imageset import ImageSet
from adaptd.project.settings import Settings

METHODS = ("source-only", "dann", "mcd", "dada", "cua", "gra", "grcl")
POINTS = 600
DEGREES = 30.0
"""As in MCD's publication."""
NOISE = 0.1
REACH = 2.5
"""A coordinate is between −REACH and REACH: 0 and 255."""
FEATURES = 32


def make_moons(seed: int, degrees: float = 0.0) -> ImageSet:
    """Two half circles, one within the other's reach, turned around the origin."""
    random = np.random.default_rng(seed)
    labels, angle = np.arange(POINTS) % 2, random.uniform(0, math.pi, POINTS)
    upper = np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25], axis=1)
    points = np.where(labels[:, None] == 0, upper, -upper) + random.normal(0, NOISE, (POINTS, 2))
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return to_images(points @ np.array([[cosine, sine], [-sine, cosine]]), labels)


def to_images(points: NDArray[np.float64], labels: NDArray[np.int64] | None = None) -> ImageSet:
    """Points [n, 2] as images of one pixel."""
    shades = np.clip(np.rint((points / REACH + 1) * 127.5), 0, 255)
    pixels = np.pad(shades, ((0, 0), (0, 1)), constant_values=127).astype(np.uint8)
    return ImageSet(np.arange(len(points)), pixels[:, :, None, None], labels)


def to_points(images: ImageSet) -> NDArray[np.float64]:
    """Where the images are."""
    return (images.pixels[:, :2, 0, 0] / 127.5 - 1) * REACH


def make_settings(seed: int, epochs: int) -> Settings:
    """The defaults, but for what points ask for; half of a batch is source, as in the publications."""
    middle, unit = (0.5, 0.5, 0.5), (0.5 / REACH,) * 3
    return Settings(
        model=ModelSettings(backbone="lenet5", classes=("upper", "lower"), mean=middle, std=unit, projector_hidden=FEATURES),
        source=SourceSettings(epochs=60, learning_rate=0.005, augment=False),
        training=TrainingSettings(epochs=epochs, batch_size=128, source_share=0.5, seed=seed, threads=1),
    )


def make_model(settings: Settings) -> Classifier:
    """A fresh classifier of points."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.training.seed)
        sizes = (3, FEATURES, FEATURES, FEATURES)
        layers = [layer for i in range(3) for layer in (nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU())]
        return Classifier(settings.model, nn.Sequential(nn.Flatten(), *layers), FEATURES)


def train(model: Classifier, data: EpisodeData, plan: Plan) -> Classifier:
    """The model after an episode."""
    training = Training(model, data, replace(plan, augmentation=None))
    for _ in training:
        pass
    training.finish()
    return model


def run(seed: int, epochs: int, methods: Sequence[str] = METHODS) -> Iterator[tuple[str, Classifier, ImageSet]]:
    """A source model, adapted by one method after the other; with the target, labelled."""
    settings, target = make_settings(seed, epochs), make_moons(2 * seed + 1, DEGREES)
    data = EpisodeData(make_moons(2 * seed), (), target)
    source = train(make_model(settings), EpisodeData(data.source), Plan.for_source(settings))
    for name in methods:
        plan = Plan.for_adaptation(settings, name)
        plan = replace(plan, learning_rate=10 * RATES[plan.optimizer])
        yield name, train(copy.deepcopy(source), data, plan), target


def measure(model: Classifier, images: ImageSet) -> float:
    """Accuracy in percent."""
    assert images.labels is not None
    return float(100 * (survey(model, images.unlabelled()).logits.argmax(dim=1).numpy() == images.labels).mean())


def draw(panel: Axes, name: str, model: Classifier, target: ImageSet) -> None:
    """A model's decision boundary under the target's points."""
    axis = np.linspace(-2.2, 2.2, 120)
    grid = to_images(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
    shares = survey(model, grid).logits.softmax(dim=1)[:, 1].numpy().reshape(120, 120)
    panel.contourf(axis, axis, shares, levels=20, cmap="cividis", alpha=0.35, vmin=0, vmax=1)
    panel.contour(axis, axis, shares, levels=[0.5], colors="black", linewidths=1.2)
    x, y = to_points(target).T
    panel.scatter(x, y, c=target.labels, cmap="cividis", s=5)
    panel.set(title=f"{name}: {measure(model, target):.0f} %", xticks=[], yticks=[])


def show(found: Mapping[str, Sequence[float]]) -> None:
    """The table, as Markdown."""
    print("| method | accuracy on the target, % | better than source-only in |\n| --- | --- | --- |")
    for name, values in found.items():
        better = sum(one > other for one, other in zip(values, found["source-only"], strict=True))
        spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
        print(f"| `{name}` | {mean(values):.1f}{spread} | {f'{better} of {len(values)}' if name != 'source-only' else ''} |")


def main() -> None:
    """Run, draw the first seed's models, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/moons"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in chosen.seeds.split(",")]
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    panels = figure.subplots(2, 4).flat
    for seed in seeds:
        for name, model, target in run(seed, chosen.epochs):
            found[name].append(measure(model, target))
            if seed == seeds[0]:
                draw(next(panels), name, model, target)
    next(panels).axis("off")
    figure.savefig(chosen.out / "moons.png", dpi=80)
    (chosen.out / "moons.json").write_text(json.dumps({"seeds": seeds, "accuracy": found}, indent=2))
    show(found)


if __name__ == "__main__":
    main()
