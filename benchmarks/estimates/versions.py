"""Stored versions to estimate: for each method and seed one sequence of domains, a file of weights after each episode.

A share of every target is held out of training, as the product does it; of the rest a seeded sample is learned from.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adaptd.bench.cell import ShowStep, run_cell, train_source
from adaptd.bench.recipes import Recipe
from adaptd.files import replace_file
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import resolve_settings
from adaptd.project.settings import Settings

HELD_OUT = 0.15


@dataclass(frozen=True, slots=True)
class Ground:
    """What a sequence is trained and estimated on.

    Args:
        recipe: its targets' training parts are without the held-out images.
        held_out: of each target, by name; with labels, which no model sees.
    """

    recipe: Recipe
    held_out: dict[str, ImageSet]


def make_ground(recipe: Recipe, source_images: int, images: int) -> Ground:
    """Of the source and of each target a sample, for the time that training takes; held out is a share of the whole domain."""
    source = recipe.domains[0]
    order = np.random.default_rng(0).permutation(len(source.train))[:source_images]
    domains, held_out = [replace(source, train=pick(source.train, order))], {}
    for number, domain in enumerate(recipe.domains[1:], 1):
        order = np.random.default_rng(number).permutation(len(domain.train))
        dropped = min(images, len(order))
        learned = order[round(HELD_OUT * dropped) : dropped]
        others = order[~np.isin(order, learned)]
        held_out[domain.name] = pick(domain.train, others[: round(HELD_OUT * len(order))])
        domains.append(replace(domain, train=pick(domain.train, learned)))
    return Ground(replace(recipe, domains=tuple(domains)), held_out)


def pick(images: ImageSet, rows: NDArray[np.int64]) -> ImageSet:
    """Some rows of a set."""
    labels = None if images.labels is None else images.labels[rows]
    return ImageSet(images.ids[rows], images.pixels[rows], labels)


def train_versions(ground: Ground, settings: Settings, method: str, out: Path, show: ShowStep) -> tuple[Path, ...]:
    """The weights of each version, trained unless they are there; `cell.json` beside them has R."""
    seed = settings.training.seed
    folder = out / f"{method}-{seed}"
    files = tuple(folder / f"{episode}.safetensors" for episode in range(len(ground.recipe.domains)))
    if not folder.is_dir():
        out.mkdir(parents=True, exist_ok=True)
        source = out / f"source-{seed}.safetensors"
        train_source(ground.recipe, settings, source, show)
        unfinished = out / f"{method}-{seed}.unfinished"
        cell = run_cell(ground.recipe, settings, method, source, show, unfinished)
        replace_file(unfinished / "cell.json", json.dumps(cell).encode())
        unfinished.rename(folder)
    return files


def add_options(parser: argparse.ArgumentParser) -> None:
    """What versions are trained from, and for how long; commands that are given the same share them."""
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("bench-estimates"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--source-epochs", type=int, default=15)
    parser.add_argument("--source-images", type=int, default=4000)
    parser.add_argument("--images", type=int, default=1500, help="of each target, less the share that is held out, for time")


def find_folder(recipe: str, chosen: argparse.Namespace) -> Path:
    """Where results with these options lie."""
    sizes = (chosen.source_images, chosen.source_epochs, chosen.images, chosen.epochs)
    return Path(chosen.out) / "-".join((recipe, *map(str, sizes)))


def make_settings(recipe: Recipe, chosen: argparse.Namespace, seed: int) -> Settings:
    """The product's, with the options."""
    overrides = {"training.epochs": chosen.epochs, "source.epochs": chosen.source_epochs, "training.threads": 1}
    return resolve_settings(recipe.settings, overrides | {"training.seed": seed})


def show_steps(title: str) -> ShowStep:
    """A line for every fifth second or so of training."""
    told = [0.0]

    def show(phase: str, step: int, steps: int) -> None:
        if time.monotonic() - told[0] >= 5 or step == steps:
            told[0] = time.monotonic()
            sys.stderr.write(f"{title}: {phase} {step}/{steps}\n")

    return show
