"""Decoded images on disk: a folder of `pixels.u8`, a memory-mapped [n, 3, S, S], and `index.json`. Decodes nothing.

A cache appears by one rename when it is whole and on disk, and is never changed afterwards. What is not finished lives
under a name that starts with `UNFINISHED`; whatever of that a killed process left, `remove_unfinished` sweeps away.
"""

import json
import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaptd.errors import CacheUnusable
from adaptd.files import publish_folder, remove, try_to_remove
from adaptd.library.imageset import ImageSet
from adaptd.library.preprocessing import Preprocessing

UNFINISHED = ".unfinished-"
PIXELS = "pixels.u8"
_INDEX = "index.json"
_SCHEMA = "adaptd.cache/1"


@dataclass(frozen=True, slots=True)
class Index:
    """What a cache says about itself. Item i of every list belongs to row i.

    Args:
        ids: the images' ids in the store.
        sha256: of the files the pictures came from.
        crc32: of each row's pixels, so that damage is found and located.
        labels: class indices, or None where the set has none.
    """

    preprocessing: Preprocessing
    ids: tuple[int, ...]
    sha256: tuple[str, ...]
    crc32: tuple[int, ...]
    labels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        lengths = {
            len(self.ids),
            len(self.sha256),
            len(self.crc32),
            len(self.ids if self.labels is None else self.labels),
        }
        if len(lengths) != 1 or len(set(self.ids)) != len(self.ids):
            raise ValueError("a cache needs one sha256, crc32 and label for each of its ids, and no id twice")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the pixels."""
        size = self.preprocessing.image_size
        return len(self.ids), 3, size, size

    def to_json(self) -> dict[str, Any]:
        """The content of `index.json`."""
        return {
            "schema": _SCHEMA,
            "shape": self.shape,
            "preprocessing": self.preprocessing.to_json(),
            "ids": self.ids,
            "sha256": self.sha256,
            "crc32": self.crc32,
            "labels": self.labels,
        }


@dataclass(frozen=True, slots=True)
class Cache:
    """An opened cache: its index, and its pixels as a read-only memory map."""

    index: Index
    images: ImageSet


@contextmanager
def unfinished(parent: Path) -> Iterator[Path]:
    """A fresh folder to build in, gone afterwards unless it was renamed away."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / f"{UNFINISHED}{secrets.token_hex(8)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        remove(folder)


def remove_unfinished(parent: Path) -> tuple[Path, ...]:
    """Sweep away what killed processes left; only while nobody else builds caches here. Returns what was removed."""
    left = tuple(sorted(parent.glob(f"{UNFINISHED}*")))
    return tuple(folder for folder in left if try_to_remove(folder))


def publish(building: Path, index: Index, target: Path) -> None:
    """Turn a folder that holds a complete pixels file into the cache `target`."""
    (building / _INDEX).write_text(json.dumps(index.to_json()), encoding="ascii")
    try:
        publish_folder(building, target)
    except OSError as error:
        if not target.is_dir():
            raise
        raise CacheUnusable(f"{target} is there already and caches are never overwritten; remove it first") from error


def write_cache(target: Path, images: ImageSet, sha256: Sequence[str], preprocessing: Preprocessing) -> None:
    """Write images that are already decoded, such as a memory taken from its domain."""
    checksums = []
    with unfinished(target.parent) as building:
        with (building / PIXELS).open("wb") as file:
            for row in images.pixels:
                content = row.tobytes()
                checksums.append(zlib.crc32(content))
                file.write(content)
        labels = None if images.labels is None else tuple(images.labels.tolist())
        index = Index(preprocessing, tuple(images.ids.tolist()), tuple(sha256), tuple(checksums), labels)
        publish(building, index, target)


def open_cache(folder: Path, preprocessing: Preprocessing | None = None) -> Cache:
    """Map a cache; with `preprocessing`, only one that was made that way.

    Raises:
        CacheUnusable: there is none, or it is not what it should be.
    """
    index = _read_index(folder)
    if preprocessing is not None and index.preprocessing != preprocessing:
        raise CacheUnusable(
            f"{folder} was decoded with {index.preprocessing.to_json()}, not {preprocessing.to_json()}; decode it again"
        )
    labels = None if index.labels is None else np.array(index.labels, dtype=np.int64)
    return Cache(index, ImageSet(np.array(index.ids, dtype=np.int64), _map(folder / PIXELS, index.shape), labels))


def damaged_rows(cache: Cache) -> tuple[int, ...]:
    """Rows whose pixels are not those that were written. Reads everything: for `fsck`."""
    return tuple(row for row, crc32 in enumerate(cache.index.crc32) if zlib.crc32(cache.images.pixels[row].tobytes()) != crc32)


def take(images: ImageSet, ids: Sequence[int]) -> ImageSet:
    """The images with these ids, in this order, copied into memory."""
    rows_by_id = {identity: row for row, identity in enumerate(images.ids.tolist())}
    missing = [identity for identity in ids if identity not in rows_by_id]
    if missing:
        raise KeyError(f"{len(missing)} ids are not in the set, the first is {missing[0]}")
    rows = np.array([rows_by_id[identity] for identity in ids], dtype=np.int64)
    labels = None if images.labels is None else images.labels[rows]
    return ImageSet(images.ids[rows], np.asarray(images.pixels[rows]), labels)


def _read_index(folder: Path) -> Index:
    try:
        stored = json.loads((folder / _INDEX).read_bytes())
        if stored["schema"] != _SCHEMA:
            raise CacheUnusable(f"{folder} was written by another adaptd ({stored['schema']}); decode it again")
        labels = None if stored["labels"] is None else tuple(stored["labels"])
        ids, sha256, crc32 = (tuple(stored[key]) for key in ("ids", "sha256", "crc32"))
        index = Index(Preprocessing(**stored["preprocessing"]), ids, sha256, crc32, labels)
    except FileNotFoundError as error:
        raise CacheUnusable(f"there is no cache in {folder}; restore it from a backup, or import its images again") from error
    except (ValueError, TypeError, KeyError) as error:
        raise CacheUnusable(f"the index of {folder} is damaged ({error}); remove it and decode again") from error
    if tuple(stored["shape"]) != index.shape:
        raise CacheUnusable(f"the index of {folder} contradicts itself; remove it and decode again")
    return index


def _map(path: Path, shape: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    expected = int(np.prod(shape))
    try:
        actual = path.stat().st_size
    except FileNotFoundError as error:
        raise CacheUnusable(f"{path} is missing; remove its folder and decode again") from error
    if actual != expected:
        raise CacheUnusable(f"{path} has {actual} bytes instead of {expected}; remove its folder and decode again")
    if expected == 0:
        return np.empty(shape, dtype=np.uint8)  # nothing cannot be mapped
    return np.memmap(path, dtype=np.uint8, mode="r", shape=shape)
