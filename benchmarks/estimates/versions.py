"""Stored versions to estimate: for each method and seed one sequence of domains, a file of weights after each episode.

A share of every target is held out of training, as the product does it; of the rest a seeded sample is learned from.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adaptd.bench.cell import ShowStep, run_cell, train_source
from adaptd.bench.recipes import Recipe
from adaptd.library.imageset import ImageSet
from adaptd.project.settings import Settings

HELD_OUT = 0.15


@dataclass(frozen=True, slots=True)
class Ground:
    """What a sequence is trained and estimated on.

    Args:
        recipe: its targets' training parts are without the held-out images.
        held_out: of each target, by name.
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
        learned = order[round(HELD_OUT * images) : images]
        others = order[~np.isin(order, learned)]
        held_out[domain.name] = pick(domain.train, others[: round(HELD_OUT * len(order))]).unlabelled()
        domains.append(replace(domain, train=pick(domain.train, learned)))
    return Ground(replace(recipe, domains=tuple(domains)), held_out)


def pick(images: ImageSet, rows: NDArray[np.int64]) -> ImageSet:
    """Some rows of a set."""
    labels = None if images.labels is None else images.labels[rows]
    return ImageSet(images.ids[rows], images.pixels[rows], labels)


def train_versions(ground: Ground, settings: Settings, method: str, out: Path, show: ShowStep) -> tuple[Path, ...]:
    """The weights of each version, trained unless they are there."""
    seed = settings.training.seed
    folder = out / f"{method}-{seed}"
    files = tuple(folder / f"{episode}.safetensors" for episode in range(len(ground.recipe.domains)))
    if not folder.is_dir():
        out.mkdir(parents=True, exist_ok=True)
        source = out / f"source-{seed}.safetensors"
        train_source(ground.recipe, settings, source, show)
        unfinished = out / f"{method}-{seed}.{os.getpid()}"
        unfinished.mkdir()
        run_cell(ground.recipe, settings, method, source, show, unfinished)
        unfinished.rename(folder)
    return files


def with_seed(settings: Settings, seed: int) -> Settings:
    """The same settings with another seed."""
    return settings.model_copy(update={"training": settings.training.model_copy(update={"seed": seed})})
