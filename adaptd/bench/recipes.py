"""Benchmarks as data: a labelled source, a sequence of target domains, and the settings that go with them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adaptd.errors import ConfigError, FolderUnusable
from adaptd.library.cache import open_cache
from adaptd.library.draft import ShowProgress, decode_files
from adaptd.library.folders import TEST_FOLDER, Found, list_domain, list_source, split_by_class
from adaptd.library.imageset import ImageSet
from adaptd.library.preprocessing import Limits, Preprocessing
from adaptd.project.settings import LENET_SETTINGS

DATA_VARIABLE = "ADAPTD_BENCH_DATA"
DEFAULT_DATA = Path("../shared/data")
SPLIT_SEED = 0
"""Splits are the same for every seed of a method."""

DIGITS = ("synnum", "mnist", "mnistm", "usps", "svhn")
OFFICE = ("dslr", "amazon", "webcam", "caltech")

DIGITS_CAVEATS = """\
SynNum is re-made after Ganin and Lempitsky's recipe (516 fonts), and SVHN's 10,000 images come from one pool, split once:
absolute figures do not compare with the paper's; differences between methods measured in one harness do."""
OFFICE_CAVEATS = """\
ImageNet ResNet-18 weights were not available; these runs use MobileNetV2.
There is no fixed test split: a seeded, stratified 20 % of each domain is held out."""


@dataclass(frozen=True, slots=True)
class BenchDomain:
    """A domain with labels on both parts: methods see the training labels of the source only."""

    name: str
    train: ImageSet
    test: ImageSet


@dataclass(frozen=True, slots=True)
class Recipe:
    """A sequence of domains, the source first. `settings` are defaults a user's own go before."""

    name: str
    domains: tuple[BenchDomain, ...]
    classes: tuple[str, ...]
    settings: Mapping[str, Any]
    caveats: str = ""


def data_folder(given: Path | None) -> Path:
    """The benchmark data: an option, else the environment, else beside the project."""
    return given or Path(os.environ.get(DATA_VARIABLE, DEFAULT_DATA))


def load_digits(data: Path, domains: Sequence[str] = DIGITS) -> Recipe:
    """Digits: SynNum → MNIST → MNIST-M → USPS → SVHN, from .npz archives."""
    settings = {"model.backbone": "lenet", **LENET_SETTINGS}
    loaded = tuple(_load_archive(data / "digits" / f"{name}.npz", name) for name in domains)
    return Recipe("digits", loaded, tuple(str(digit) for digit in range(10)), settings, DIGITS_CAVEATS)


def _load_archive(path: Path, name: str) -> BenchDomain:
    if not path.is_file():
        raise FolderUnusable(f"{path} is not there: name the benchmark data with --data DIR or {DATA_VARIABLE}")
    with np.load(path, allow_pickle=False) as archive:
        parts = {
            split: ImageSet(
                np.arange(len(archive[f"y_{split}"]), dtype=np.int64),
                np.ascontiguousarray(archive[f"x_{split}"].transpose(0, 3, 1, 2)),
                archive[f"y_{split}"].astype(np.int64),
            )
            for split in ("train", "test")
        }
    return BenchDomain(name, parts["train"], parts["test"])


def load_office_caltech(data: Path, work: Path, progress: ShowProgress | None = None) -> Recipe:
    """Office-Caltech10: DSLR → Amazon → WebCam → Caltech, from image folders."""
    weights = data / "weights" / "mobilenet_v2_imagenet_features.safetensors"
    settings = {"model.backbone": "mobilenet_v2", "model.image_size": 96, "model.weights": str(weights)}
    folders = [data / "office_caltech10" / name for name in OFFICE]
    return Recipe("office-caltech", *load_folders(folders, work, 96, progress), settings, OFFICE_CAVEATS)


def load_folders(
    folders: Sequence[Path], work: Path, image_size: int, progress: ShowProgress | None = None
) -> tuple[tuple[BenchDomain, ...], tuple[str, ...]]:
    """Any folders: a source of class folders, then targets of the same classes, or unlabelled with a labelled `_test/`."""
    if len(folders) < 2:
        raise ConfigError("a comparison needs a source folder and at least one target folder")
    classes = tuple(sorted({str(file.label) for file in list_source(folders[0]).train}))
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        raise ConfigError(f"two of the folders have the same name: {', '.join(names)}; domains are named after them")
    loaded = (_load_folder(f, classes, work, image_size, progress, is_source=f is folders[0]) for f in folders)
    return tuple(loaded), classes


def _load_folder(
    folder: Path, classes: tuple[str, ...], work: Path, image_size: int, progress: ShowProgress | None, *, is_source: bool
) -> BenchDomain:
    train, test = _split(folder, is_source=is_source)
    strange = sorted({str(file.label) for file in (*train, *test) if file.label is not None} - set(classes))
    if strange:
        raise FolderUnusable(f"{folder} has a class {strange[0]!r} that the source does not have: {', '.join(classes)}")
    sets = [
        decode(files, classes, work / f"{folder.resolve().name}-{split}-{image_size}", image_size, progress)
        for split, files in (("train", train), ("test", test))
    ]
    return BenchDomain(folder.resolve().name, sets[0], sets[1])


def _split(folder: Path, *, is_source: bool) -> tuple[tuple[Found, ...], tuple[Found, ...]]:
    """Training and test files: the folder's own `_test/`, else a stratified 20 %."""
    labelled = is_source or not (folder / TEST_FOLDER).is_dir()
    listing = list_source(folder) if labelled else list_domain(folder)
    if listing.test:
        return listing.train, listing.test
    return split_by_class(listing.train, lambda file: str(file.label), 0.2, SPLIT_SEED)


def decode(
    files: Sequence[Found], classes: tuple[str, ...], target: Path, image_size: int, progress: ShowProgress | None
) -> ImageSet:
    """Decode once and keep: the next run opens the cache."""
    if not target.is_dir():
        with decode_files(files, target.parent, Preprocessing(image_size), Limits(), progress) as draft:
            named = [(image, row) for row, image in enumerate(draft.images)]
            if not named:
                raise FolderUnusable(f"none of the {len(files)} files for {target.name} is a usable image")
            labelled = all(image.file.label is not None for image, _ in named)
            draft.seal(target, named, [classes.index(str(image.file.label)) for image, _ in named] if labelled else None)
    return open_cache(target, Preprocessing(image_size)).images
