"""What an episode learns from and is measured on, gathered from the store and opened from the caches."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adaptd.learning.batches import EpisodeData
from adaptd.learning.grcl import MemorySelection
from adaptd.library.cache import Cache, open_cache, take
from adaptd.library.imageset import ImageSet
from adaptd.library.memories import find_keepers
from adaptd.library.preprocessing import Preprocessing
from adaptd.project.layout import Layout
from adaptd.records import Domain, Episode, EpisodeState, Split, Version
from adaptd.store import Transaction


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory ready to be written: images with pseudo-labels, most confident first."""

    images: ImageSet
    sha256: tuple[str, ...]
    confidence: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Materials:
    """Everything one episode reads.

    Args:
        layout: where it lies.
        episode: the episode.
        source: domain 0.
        measured_on: the domains of this episode's row of R: all placed ones and the episode's own.
        parts: of each domain, by id: the splits of its finished deliveries, and of the episode's own.
        memories: of each past domain in the order of positions: where its memory's pixels lie.
        earlier_versions: the source model and the one to begin with, where the episode's domain is new to R.
        confidences: of the images in the own domain's memory so far, by image id.
    """

    layout: Layout
    episode: Episode
    source: Domain
    measured_on: tuple[Domain, ...]
    parts: dict[int, tuple[tuple[int, Split], ...]]
    memories: dict[int, Path]
    earlier_versions: tuple[Version, ...]
    confidences: dict[int, float]

    @classmethod
    def read(cls, tx: Transaction, layout: Layout, episode: Episode) -> "Materials":
        """Look up what the episode needs."""
        own = tx.domains.get(episode.domain_id)
        placed = sorted((d for d in tx.domains.list_all() if d.position is not None), key=lambda d: d.position or 0)
        done = tx.episodes.list_all(EpisodeState.DONE)
        keepers = find_keepers(done)
        learned = {(e.domain_id, e.delivery) for e in (*done, episode)}
        parts = {d.id: tuple(part for part in tx.images.list_parts(d.id) if (d.id, part[0]) in learned) for d in (*placed, own)}
        memories = {d.id: layout.memory(d.id, keepers[d.id]) for d in placed if d.position and d.id in keepers}
        base, versions = tx.versions.find_base(), tx.versions.list_all()
        earlier = {v.version: v for v in (versions[0], base)} if base is not None and own.position is None else {}
        return cls(
            layout,
            episode,
            placed[0] if placed else own,
            tuple(placed) if own.position is not None else (*placed, own),
            parts,
            memories,
            tuple(earlier.values()),
            {item.image_id: item.confidence for item in tx.memories.list_for(own.id)},
        )

    @property
    def preprocessing(self) -> Preprocessing:
        """How the images were made."""
        return self._open(self.source, Split.TRAIN)[0].index.preprocessing

    def open_data(self) -> EpisodeData:
        """The arrays of the episode."""
        source = _join(self._open(self.source, Split.TRAIN))
        assert source is not None
        if self.episode.domain_id == self.source.id:
            return EpisodeData(source)
        memories = tuple(open_cache(path).images for path in self.memories.values())
        target = open_cache(self.layout.cache(self.episode.domain_id, self.episode.delivery, Split.TRAIN)).images
        return EpisodeData(source, memories, target)

    def open_test(self, domain: Domain) -> ImageSet | None:
        """A domain's labelled test set, None where it has none."""
        return _join(self._open(domain, Split.TEST))

    def open_unlabelled(self, domain: Domain) -> ImageSet:
        """A domain's own images, for estimates."""
        images = _join(self._open(domain, Split.TRAIN))
        assert images is not None
        return images.unlabelled()

    def open_memory(self, domain: Domain) -> ImageSet:
        """A past domain's memory, with its pseudo-labels."""
        return open_cache(self.memories[domain.id]).images

    def list_remembered(self) -> tuple[Domain, ...]:
        """The domains that have a memory."""
        return tuple(domain for domain in self.measured_on if domain.id in self.memories)

    def open_samples(self) -> dict[str, ImageSet]:
        """Images of every domain, by its name."""
        return {domain.name: self.open_test(domain) or self.open_unlabelled(domain) for domain in self.measured_on}

    def merge_memory(self, selection: MemorySelection, quota: int) -> Kept:
        """The episode's selection, together with what is left of an earlier delivery's memory, most confident first."""
        target = open_cache(self.layout.cache(self.episode.domain_id, self.episode.delivery, Split.TRAIN))
        chosen = take(target.images, selection.ids.tolist())
        labels = selection.labels.numpy().astype(np.int64)
        parts = [_with(chosen, labels, selection.confidence.double().numpy(), _hashes(target))]
        before = self.memories.get(self.episode.domain_id)
        if before is not None:
            old = open_cache(before)
            assert old.images.labels is not None
            sure = np.array([self.confidences[int(image)] for image in old.images.ids])
            parts.append(_with(old.images, old.images.labels, sure, _hashes(old)))
        return _most_confident(parts, quota)

    def _open(self, domain: Domain, split: Split) -> list[Cache]:
        """The caches of a split. The store says which there are: one that is gone must not pass for none."""
        return [
            open_cache(self.layout.cache(domain.id, delivery, part)) for delivery, part in self.parts[domain.id] if part is split
        ]


def _hashes(cache: Cache) -> dict[int, str]:
    return dict(zip(cache.index.ids, cache.index.sha256, strict=True))


def _with(images: ImageSet, labels: NDArray[np.int64], sure: NDArray[np.float64], hashes: dict[int, str]) -> Kept:
    return Kept(ImageSet(images.ids, images.pixels, labels), tuple(hashes[int(image)] for image in images.ids), sure)


def _most_confident(parts: list[Kept], quota: int) -> Kept:
    sure = np.concatenate([part.confidence for part in parts])
    order = np.argsort(-sure, kind="stable")[:quota]
    joined = _join_sets([part.images for part in parts])
    hashes = [digest for part in parts for digest in part.sha256]
    assert joined.labels is not None
    images = ImageSet(joined.ids[order], joined.pixels[order], joined.labels[order])
    return Kept(images, tuple(hashes[row] for row in order), sure[order])


def _join(caches: list[Cache]) -> ImageSet | None:
    return _join_sets([cache.images for cache in caches]) if caches else None


def _join_sets(sets: list[ImageSet]) -> ImageSet:
    """One set of several; a single one stays a memory map."""
    if len(sets) == 1:
        return sets[0]
    labels = [images.labels for images in sets if images.labels is not None]
    return ImageSet(
        np.concatenate([images.ids for images in sets]),
        np.concatenate([images.pixels for images in sets]),
        np.concatenate(labels) if len(labels) == len(sets) else None,
    )
