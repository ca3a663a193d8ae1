"""The memory that an episode leaves: chosen images with pseudo-labels, merged with an earlier delivery's, and written."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptd.episodes.materials import Materials
from adaptd.learning.grcl import MemorySelection
from adaptd.library.cache import Cache, take, write_cache
from adaptd.library.imageset import ImageSet
from adaptd.project.layout import Layout
from adaptd.project.settings import Settings
from adaptd.records import MemoryItem
from adaptd.releases.images import join_sets


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory ready to be written: images with pseudo-labels, most confident first."""

    images: ImageSet
    sha256: tuple[str, ...]
    confidence: NDArray[np.float64]


def write_memory(layout: Layout, materials: Materials, selection: MemorySelection, settings: Settings) -> list[MemoryItem]:
    """Write the pixels of an episode's memory, and return its rows."""
    merged = _merge(materials, selection, settings.memory.images_per_domain)
    target = layout.memory(materials.domain.id, materials.episode.id)
    # Left by a process killed before its commit.
    shutil.rmtree(target, ignore_errors=True)
    write_cache(target, merged.images, merged.sha256, materials.images.preprocessing)
    assert merged.images.labels is not None
    return [
        MemoryItem(int(image), materials.domain.id, settings.model.classes[int(label)], float(confidence))
        for image, label, confidence in zip(merged.images.ids, merged.images.labels, merged.confidence, strict=True)
    ]


def _merge(materials: Materials, selection: MemorySelection, quota: int) -> NewMemory:
    """The selection, together with what is left of an earlier delivery's memory, most confident first."""
    chosen = take(materials.target.images, selection.ids.tolist())
    labels = selection.labels.numpy().astype(np.int64)
    parts = [_label(chosen, labels, selection.confidence.double().numpy(), _hashes(materials.target))]
    folder = materials.images.memories.get(materials.domain.id)
    if folder is not None:
        old = materials.images.open(folder)
        own = set(materials.target.index.ids)
        # An episode may come back to a delivery, to be taught: of its images it chooses anew.
        kept = take(old.images, [key for key in old.index.ids if key not in own])
        assert kept.labels is not None
        confidence = np.array([materials.confidences[int(image)] for image in kept.ids])
        parts.append(_label(kept, kept.labels, confidence, _hashes(old)))
    return _most_confident(parts, quota)


def _hashes(cache: Cache) -> dict[int, str]:
    return dict(zip(cache.index.ids, cache.index.sha256, strict=True))


def _label(images: ImageSet, labels: NDArray[np.int64], confidence: NDArray[np.float64], hashes: Mapping[int, str]) -> NewMemory:
    labelled = ImageSet(images.ids, images.pixels, labels)
    return NewMemory(labelled, tuple(hashes[int(image)] for image in images.ids), confidence)


def _most_confident(parts: list[NewMemory], quota: int) -> NewMemory:
    confidence = np.concatenate([part.confidence for part in parts])
    order = np.argsort(-confidence, kind="stable")[:quota]
    joined = join_sets([part.images for part in parts])
    hashes = [digest for part in parts for digest in part.sha256]
    assert joined.labels is not None
    images = ImageSet(joined.ids[order], joined.pixels[order], joined.labels[order])
    return NewMemory(images, tuple(hashes[row] for row in order), confidence[order])
