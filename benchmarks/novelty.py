"""Is it new at all? Drops of Digits against known domains, judged as an episode would. `python -m benchmarks.novelty --help`.

    python -m benchmarks.novelty --out benchmarks/out/novelty

A LeNet learns from 3,000 images of MNIST. Of every domain 1,000 images that it did not learn from are the held-out reference, and
drops are drawn from others that nobody has seen. False alarms: a split of a known domain, all five being known, is called new.
Power: a domain that is not among the four known ones is called new. And drops for a project that knows its source alone: the very
images it learned from under a new name, SVHN, and the source with less contrast.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from adaptd.bench.recipes import DIGITS, BenchDomain, Recipe, data_folder, load_digits
from adaptd.evaluation.evaluator import view
from adaptd.evaluation.novelty import (
    MOST_IMAGES,
    TOLERATED_AUC,
    Distance,
    Novelty,
    Verdict,
    correct_level,
    decide,
    find_nearest,
    measure_distance,
)
from adaptd.evaluation.shift import View
from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import resolve_settings

LEARNED, POOL, LARGEST = 3000, 2500, 2000
SIZES = (50, 200, 1000)
CONTRASTS = (0.9, 0.8, 0.6, 0.4)


@dataclass(frozen=True, slots=True)
class Known:
    """A domain: held-out images, those that a model may have learned from, and others to draw drops from."""

    held_out: View
    learned: View
    pool: View

    @property
    def references(self) -> tuple[View, View]:
        """As an episode has them: held-out images, and all."""
        both = (self.held_out.features, self.learned.features), (self.held_out.logits, self.learned.logits)
        return self.held_out, View(np.concatenate(both[0]), np.concatenate(both[1]))


def main() -> None:
    """Train, look, judge, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--source", choices=DIGITS, default="mnist")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5, help="drops of each domain and size, for the power")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/novelty"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    names = [chosen.source, *(name for name in DIGITS if name != chosen.source)]
    recipe = load_digits(data_folder(chosen.data), names)
    model = train(recipe, chosen.epochs, chosen.seed)
    known = {domain.name: look_at(model, domain, chosen.seed) for domain in recipe.domains}
    source = recipe.domains[0]
    paler = {f"contrast {c:g}": look_at(model, fade(source, c), chosen.seed).pool for c in CONTRASTS}
    chance = np.random.default_rng(chosen.seed)
    found = {
        "source_alone": judge_source_alone(known, chosen.source, chance),
        "splits": judge_splits(known, chosen.splits, chance),
        "unknown": judge_unknown(known, chosen.repeats, chance),
        "paler": judge_paler(paler, {source.name: known[source.name]}, chosen.repeats, chance),
    }
    (chosen.out / "novelty.json").write_text(json.dumps(vars(chosen) | found, indent=1, default=str))
    draw(found, chosen.out / "novelty.png")
    show(found)


def train(recipe: Recipe, epochs: int, seed: int) -> Classifier:
    """A model that learned from some of the source."""
    overrides = {"model.classes": recipe.classes, "source.epochs": epochs, "training.seed": seed}
    settings = resolve_settings(recipe.settings, overrides)
    source = recipe.domains[0].train
    model = build_classifier(settings.model, seed)
    for report in Training(model, EpisodeData(take(source, draw_rows(source, seed)[:LEARNED])), Plan.for_source(settings)):
        if report.step == report.steps:
            tell(f"trained in {report.steps} steps")
    return model


def fade(domain: BenchDomain, contrast: float) -> BenchDomain:
    """A domain with its pixels nearer to the middle."""
    pixels = (127.5 + contrast * (np.asarray(domain.train.pixels) - 127.5)).astype(np.uint8)
    return BenchDomain(domain.name, ImageSet(domain.train.ids, pixels, domain.train.labels), domain.test)


def look_at(model: Classifier, domain: BenchDomain, seed: int) -> Known:
    """The three parts of a domain."""
    rows, held_out = draw_rows(domain.train, seed), draw_rows(domain.test, seed)
    parts = (
        take(domain.test, held_out[:MOST_IMAGES]),
        take(domain.train, rows[:MOST_IMAGES]),
        take(domain.train, rows[LEARNED : LEARNED + POOL]),
    )
    tell(f"looks at {domain.name}")
    return Known(*(view(model, part, len(model.settings.classes), 512) for part in parts))


def draw_rows(images: ImageSet, seed: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """All rows in a random order."""
    return np.random.default_rng(seed).permutation(len(images))


def take(images: ImageSet, rows: "np.ndarray[Any, np.dtype[np.int64]]") -> ImageSet:
    """Some images with their labels."""
    assert images.labels is not None
    return ImageSet(images.ids[rows], images.pixels[rows], images.labels[rows])


def judge(drop: View, known: Mapping[str, Known], drops: int, chance: np.random.Generator) -> Novelty:
    """What an episode would say of a drop."""
    level, seed, classes = correct_level(drops, len(known)), int(chance.integers(1 << 31)), [str(digit) for digit in range(10)]
    seen = drop.take(chance.permutation(len(drop))[:MOST_IMAGES])

    def measure(name: str, domain: Known) -> Distance | None:
        return find_nearest(domain.references, lambda images: measure_distance(name, seen, images, classes, level, seed))

    distances = [measure(name, domain) for name, domain in known.items()]
    return decide("the drop", len(drop), [each for each in distances if each is not None], level)


def judge_source_alone(known: Mapping[str, Known], source: str, chance: np.random.Generator) -> list[dict[str, Any]]:
    """The first drop of a project: a copy of what it learned from, or SVHN."""
    alone = {source: known[source]}
    drops = {f"{source} under a new name": known[source].learned, "svhn": known["svhn"].pool}
    return [summarize(name, len(drop), judge(drop, alone, 1, chance)) for name, drop in drops.items()]


def judge_splits(known: Mapping[str, Known], splits: int, chance: np.random.Generator) -> list[dict[str, Any]]:
    """Drops of known domains, of 50 to 2,000 images, small ones as often as large ones."""
    found = []
    for number in range(splits):
        name = list(known)[number % len(known)]
        size = round(float(np.exp(chance.uniform(np.log(SIZES[0]), np.log(LARGEST)))))
        drop = known[name].pool.take(chance.permutation(POOL)[:size])
        found.append(summarize(name, size, judge(drop, known, len(known), chance)))
        tell(f"split {number + 1} of {splits}: {found[-1]['verdict']}")
    return found


def judge_unknown(known: Mapping[str, Known], repeats: int, chance: np.random.Generator) -> list[dict[str, Any]]:
    """Drops of each domain where only the others are known."""
    found = []
    for name, domain in known.items():
        others = {other: each for other, each in known.items() if other != name}
        for size in SIZES:
            for _ in range(repeats):
                drop = domain.pool.take(chance.permutation(POOL)[:size])
                found.append(summarize(name, size, judge(drop, others, len(known), chance)))
        tell(f"{name} as unknown")
    return found


def judge_paler(
    paler: Mapping[str, View], source: Mapping[str, Known], repeats: int, chance: np.random.Generator
) -> list[dict[str, Any]]:
    """Drops of the source with less contrast, where the source alone is known."""
    found = []
    for name, pool in paler.items():
        for size in SIZES:
            drops = [pool.take(chance.permutation(POOL)[:size]) for _ in range(repeats)]
            found += [summarize(name, size, judge(drop, source, 1, chance)) for drop in drops]
    return found


def summarize(name: str, size: int, found: Novelty) -> dict[str, Any]:
    """One line of the results."""
    nearest = found.distances[0]
    mine = next((each for each in found.distances if each.domain == name), nearest)
    facts = {"nearest": nearest.domain, "auc": mine.auc, "class_distance": mine.class_distance}
    return {"drop": name, "images": size, "verdict": found.verdict, "known_as": found.known_as, **facts}


def draw(found: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """AUC by number of images: splits of known domains against their own, unknown ones against the nearest."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for key, label, marker in (("splits", "of a known domain", "o"), ("unknown", "of an unknown domain", "x")):
        rows = found[key]
        axes.scatter([row["images"] for row in rows], [row["auc"] for row in rows], s=18, marker=marker, label=label)
    axes.axhline(TOLERATED_AUC, color="black", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", xlabel="images in the drop", ylabel="AUC to the nearest known domain", ylim=(0.4, 1.02))
    axes.legend(frameon=False, loc="center right")
    figure.savefig(path, dpi=90)


def show(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """The tables, as Markdown."""
    sys.stdout.write("| first drop of a project | images | verdict | AUC |\n| --- | ---: | --- | ---: |\n")
    for row in found["source_alone"]:
        sys.stdout.write(f"| {row['drop']} | {row['images']:,} | {row['verdict']} | {row['auc']:.2f} |\n")
    splits = found["splits"]
    alarms = sum(row["verdict"] != Verdict.KNOWN for row in splits)
    mistaken = sum(row["verdict"] == Verdict.KNOWN and row["known_as"] != row["drop"] for row in splits)
    sys.stdout.write(f"\nFalse alarms: {alarms} of {len(splits)}; known as another domain: {mistaken}.\n\n")
    sizes = " | ".join(f"{size:,}" for size in SIZES)
    sys.stdout.write(
        f"| unknown domain | called new, of drops of {sizes} images | mean AUC |\n| --- |{' ---: |' * (len(SIZES) + 1)}\n"
    )
    rows = [*found["unknown"], *found["paler"]]
    for name in dict.fromkeys(row["drop"] for row in rows):
        mine = [row for row in rows if row["drop"] == name]
        cells = [count_new([row for row in mine if row["images"] == size]) for size in SIZES]
        auc = np.mean([row["auc"] for row in mine])
        sys.stdout.write(f"| {name} | {' | '.join(cells)} | {auc:.2f} |\n")


def count_new(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many of some drops are called new."""
    return f"{sum(row['verdict'] == Verdict.NEW for row in rows)} of {len(rows)}"


def tell(words: str) -> None:
    """Progress, for whoever waits."""
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
