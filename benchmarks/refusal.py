"""Which drops a Digits model refuses, and by which signals: `python -m benchmarks.refusal`, a few minutes on one thread.

The first table of each model is made of its source alone, and is what the threshold was chosen by: held-out images, changed so
that a person would still name them, against single classes and images without content. The second has real drops. Truth is for
the reader: nothing is decided by it.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from adaptd.bench.cell import train_source
from adaptd.bench.recipes import BenchDomain, Recipe, data_folder, load_digits
from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.methods.options import GuardedOptions
from adaptd.learning.plan import Plan
from adaptd.learning.survey import survey
from adaptd.learning.watch import Watch
from adaptd.learning.weights import load_classifier
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import resolve_settings

SOURCE_IMAGES = 2000
DROPPED = 1000
SMALL = 100
Pixels = NDArray[np.uint8]
Pixels32 = NDArray[np.float32]
Drop = tuple[str, Pixels, NDArray[np.int64] | None]


def change_source(held_out: ImageSet) -> Iterator[Drop]:
    """Held-out source images as other domains might show them; then single classes, and what has no content."""
    chance, x, y = np.random.default_rng(0), np.asarray(held_out.pixels).astype(np.float32), held_out.labels
    assert y is not None
    noise = chance.normal(0, 255, x.shape).astype(np.float32)
    blurred: Pixels32 = functional.avg_pool2d(torch.from_numpy(x), 5, 1, 2, count_include_pad=False).numpy()
    texture = chance.integers(0, 256, (len(x), 3, 8, 8)).repeat(4, 2).repeat(4, 3).astype(np.float32)
    changed: dict[str, Pixels32] = {
        "as it is": x,
        "inverted": np.float32(255) - x,
        "half the contrast": x * np.float32(0.5) + np.float32(64),
        "blurred": blurred,
        "noise of 0.1": x + 0.1 * noise,
        "noise of 0.3": x + 0.3 * noise,
        "a third is texture": (x + x + texture) * np.float32(1 / 3),
        "quarter turned dark": x * (np.arange(32) > 7).astype(np.float32),
    }
    for name, pixels in changed.items():
        yield name, _bytes(pixels), y
    half = y < (y.max() + 1) // 2
    yield "half of the classes", held_out.pixels[half], y[half]
    for name in ("as it is", "blurred", "a third is texture"):
        for digit in (1, 3, 8):
            yield f"{digit} alone, {name}", _bytes(changed[name][y == digit]), y[y == digit]
    yield "pixels shuffled", _bytes(_shuffle_blocks(x, 1, chance)), None
    yield "blocks shuffled", _bytes(_shuffle_blocks(x, 8, chance)), None


def list_drops(recipe: Recipe, source: str, data: Path) -> Iterator[Drop]:
    """Every other domain, whole, small and by single classes; noise; photographs of other things."""
    chance = np.random.default_rng(1)
    for domain in recipe.domains:
        train, y = domain.train, domain.train.labels
        assert y is not None
        if domain.name != source:
            yield domain.name, train.pixels[:DROPPED], y[:DROPPED]
            yield f"{domain.name}, {SMALL} images", train.pixels[:SMALL], y[:SMALL]
        for digit in (1, 3, 8):
            yield f"{domain.name}: {digit} alone", train.pixels[y == digit][:DROPPED], y[y == digit][:DROPPED]
            yield f"{domain.name}: {digit} alone, 60 images", train.pixels[y == digit][:60], y[y == digit][:60]
    yield "noise", chance.integers(0, 256, (DROPPED, 3, 32, 32), dtype=np.uint8), None
    yield "coarse noise", chance.integers(0, 256, (DROPPED, 3, 4, 4), dtype=np.uint8).repeat(8, 2).repeat(8, 3), None
    files = sorted((data / "office_caltech10").rglob("*.jpg"))
    files = [files[number] for number in chance.permutation(len(files))[:DROPPED]]
    if files:
        photos = [np.asarray(Image.open(path).convert("RGB").resize((32, 32))).transpose(2, 0, 1) for path in files]
        yield "photographs (Office-Caltech)", np.stack(photos), None


def judge(model: Classifier, source: ImageSet, held_out: ImageSet, drop: Drop, plan: Plan) -> str:
    """A row of the table."""
    name, pixels, labels = drop
    target = ImageSet(np.arange(len(pixels), dtype=np.int64), pixels)
    seen, watch = survey(model, target), Watch(model, EpisodeData(source, (), target, held_out), plan)
    watch.begin(seen)
    trust, options = watch.trust, plan.options
    assert trust is not None
    assert isinstance(options, GuardedOptions)
    right = "" if labels is None else f"{100 * (seen.logits.argmax(1).numpy() == labels).mean():.0f} %"
    kind = "one class" if trust.looks_like_one_class else "hard" if trust.looks_like_every_class else "strange"
    figures = (trust.agreement, trust.balance, trust.spread, trust.confidence, trust.single_class, trust.recognition)
    verdict = f"refused: {kind}" if trust.is_refused(options.min_agreement) else "learned"
    return f"| {name} | {len(pixels)} | {right} | {' | '.join(f'{figure:.2f}' for figure in figures)} | {verdict} |\n"


def main() -> None:
    """Both tables for both models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", type=Path, default=Path("bench-refusal"), help="where source models are kept")
    parser.add_argument("--sources", default="mnist,mnistm")
    chosen = parser.parse_args()
    data = data_folder(chosen.data)
    recipe = load_digits(data)
    settings = resolve_settings(recipe.settings, {"training.threads": 1})
    plan = Plan.for_adaptation(settings, "guarded")
    torch.set_num_threads(1)
    chosen.models.mkdir(exist_ok=True)
    for source in chosen.sources.split(","):
        domain = next(each for each in recipe.domains if each.name == source)
        known = _first(domain.train, SOURCE_IMAGES)
        path = chosen.models / f"{source}-{SOURCE_IMAGES}.safetensors"
        alone = Recipe(recipe.name, (BenchDomain(source, known, domain.test),), recipe.classes, recipe.settings)
        train_source(alone, settings, path, lambda *_: None)
        model, half = load_classifier(path), len(domain.test) // 2
        reference, other = _first(domain.test, half), _first(domain.test, len(domain.test), half)
        for title, held_out, drops in (
            ("its held-out source, changed", reference, change_source(other)),
            ("drops", domain.test, list_drops(recipe, source, data)),
        ):
            sys.stdout.write(f"\n{source} model, {title}\n\n| drop | images | right | agreement | balance | spread | confidence ")
            sys.stdout.write("| single class | recognition | verdict |\n|" + " --- |" * 10 + "\n")
            for drop in drops:
                sys.stdout.write(judge(model, known, held_out, drop, plan))
                sys.stdout.flush()


def _first(images: ImageSet, last: int, first: int = 0) -> ImageSet:
    assert images.labels is not None
    return ImageSet(images.ids[first:last], images.pixels[first:last], images.labels[first:last])


def _bytes(pixels: NDArray[np.float32]) -> Pixels:
    return pixels.clip(0, 255).astype(np.uint8)


def _shuffle_blocks(x: NDArray[np.float32], size: int, chance: np.random.Generator) -> NDArray[np.float32]:
    """The same pixels, in squares that stand anywhere."""
    n, channels, height, width = x.shape
    rows, columns = height // size, width // size
    blocks = x.reshape(n, channels, rows, size, columns, size).transpose(0, 2, 4, 1, 3, 5).reshape(n, rows * columns, -1)
    mixed = np.stack([chance.permutation(each) for each in blocks])
    return mixed.reshape(n, rows, columns, channels, size, size).transpose(0, 3, 1, 4, 2, 5).reshape(x.shape)


if __name__ == "__main__":
    main()
