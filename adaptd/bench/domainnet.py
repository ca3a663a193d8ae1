"""DomainNet as it is published: `<domain>/<class>/*.jpg` from an archive for each domain, and its split lists beside them.

A line of `clipart_train.txt` is `clipart/aircraft_carrier/clipart_001_000001.jpg 0`. The paper takes five of the six domains, and
of each 40,000 images to train and 8,000 to test; which ones it does not say. Here they are drawn with a fixed seed; a domain that
has fewer (clipart has 33,525 to train) gives all.
"""

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from adaptd.bench.recipes import SPLIT_SEED, BenchDomain, Recipe, decode
from adaptd.errors import FolderUnusable
from adaptd.library.draft import ShowProgress
from adaptd.library.folders import Found

DOMAINS = ("clipart", "real", "infograph", "sketch", "painting")
"""The paper's, in its order."""
IMAGES = {"train": 40_000, "test": 8_000}
SETTINGS = {"model.backbone": "resnet50", "model.image_size": 224, "model.weights": "torchvision"}
CAVEATS = """\
Which 40,000 and 8,000 images of a domain the paper took is not known: here they are drawn from the published split lists with a
fixed seed. A domain with fewer images gives all of them, and files with the very same bytes count once."""


def load_domainnet(folder: Path, work: Path, image_size: int, progress: ShowProgress | None = None) -> Recipe:
    """DomainNet: Clipart → Real → Infograph → Sketch → Painting, with the published splits.

    Raises:
        FolderUnusable: a list or an image that a list names is missing, or a list is not one.
    """
    lists = {(name, split): _read_list(folder, name, split) for name in DOMAINS for split in IMAGES}
    classes = _number_classes(lists)
    for name in DOMAINS:
        _require_images(folder, name, {entry for split in IMAGES for entry, _ in lists[name, split]})
    domains = []
    for name in DOMAINS:
        chosen = {split: _choose(folder, lists[name, split], split) for split in IMAGES}
        places = {split: work / f"{name}-{split}-{image_size}" for split in IMAGES}
        parts = {split: decode(chosen[split], classes, places[split], image_size, progress) for split in IMAGES}
        domains.append(BenchDomain(name, parts["train"], parts["test"]))
    return Recipe("domainnet", tuple(domains), classes, SETTINGS, CAVEATS)


def _read_list(folder: Path, name: str, split: str) -> list[tuple[str, int]]:
    """Each image's path and class number."""
    file = folder / f"{name}_{split}.txt"
    if not file.is_file():
        raise FolderUnusable(
            f"{file} is not there: put DomainNet's split lists and unpacked archives into {folder}, "
            f"or name its parent folder with --data DIR"
        )
    return list(_parse(file, name))


def _parse(file: Path, name: str) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        path, _, label = line.strip().rpartition(" ")
        parts = path.split("/")
        if not (len(parts) == 3 and parts[0] == name and ".." not in parts and label.isdecimal()):
            wanted = f"{name}/<class>/<image> <number>"
            raise FolderUnusable(f"{file}, line {number} is {line[:80]!r} instead of `{wanted}`: get the list again")
        yield path, int(label)


def _number_classes(lists: Mapping[tuple[str, str], list[tuple[str, int]]]) -> tuple[str, ...]:
    """Class names in the order of their numbers, which are the same in all lists."""
    names: dict[int, str] = {}
    for (name, split), entries in lists.items():
        for path, number in entries:
            label = path.split("/")[1]
            if names.setdefault(number, label) != label:
                raise FolderUnusable(
                    f"{name}_{split}.txt gives the number {number} to {label!r}, and another list to {names[number]!r}: "
                    "take all lists from one release"
                )
    return tuple(names[number] for number in sorted(names))


def _require_images(folder: Path, name: str, wanted: set[str]) -> None:
    """Tell at once what a half-unpacked archive lacks: decoding would take hours to find it."""
    top = folder / name
    there = {
        f"{name}/{place.name}/{file.name}"
        for place in (os.scandir(top) if top.is_dir() else ())
        if place.is_dir(follow_symlinks=False)
        for file in os.scandir(place)
        if file.is_file(follow_symlinks=False)
    }
    missing = sorted(wanted - there)
    if missing:
        raise FolderUnusable(
            f"{len(missing):,} of the {len(wanted):,} images that {name}'s lists name are not in {folder} "
            f"(the first: {missing[0]}): unpack {name}.zip there, whole"
        )


def _choose(folder: Path, entries: list[tuple[str, int]], split: str) -> tuple[Found, ...]:
    """As many as the paper takes, the same ones every time, in the order of the list."""
    rows = list(range(len(entries)))
    if len(entries) > IMAGES[split]:
        # No secret is drawn here; a text seed gives the same draw on every machine.
        rows = sorted(random.Random(f"{SPLIT_SEED}/{entries[0][0]}").sample(rows, IMAGES[split]))  # noqa: S311
    return tuple(Found(folder / path, path, path.split("/")[1], folder) for path in (entries[row][0] for row in rows))
