"""The images that versions of a project are judged on. What an episode learns from them is not decided here."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from adaptd.library.cache import Cache, open_cache
from adaptd.library.imageset import Gathered, ImageSet
from adaptd.library.memories import find_forgotten, find_memory_episodes
from adaptd.library.preprocessing import Preprocessing
from adaptd.project.layout import Layout
from adaptd.records import SUPERVISED, Domain, Episode, EpisodeState, Split
from adaptd.releases.given import Given, read_given
from adaptd.store import Transaction

Part = tuple[int, Split]
"""One cache of a domain: the number of a delivery, and what its images are for."""


class ImageSets:
    """Image sets by domain. Each cache is opened once and kept: a memory map costs next to nothing.

    Args:
        layout: where caches lie.
        domains: all of them, the source first.
        parts: of each domain, by id.
        memories: by domain id, where the memory's pixels lie.
        given: by domain id, the labels that people gave to measure on.
    """

    def __init__(
        self,
        layout: Layout,
        domains: tuple[Domain, ...],
        parts: Mapping[int, tuple[Part, ...]],
        memories: Mapping[int, Path],
        given: Mapping[int, Given],
    ) -> None:
        self.domains, self.memories, self.given = domains, memories, given
        self._layout, self._parts = layout, parts
        self._opened: dict[Path, Cache] = {}

    @property
    def source(self) -> Domain:
        """Domain 0."""
        return self.domains[0]

    @property
    def preprocessing(self) -> Preprocessing:
        """How the images were made."""
        return self._open(self.source, Split.TRAIN)[0].index.preprocessing

    def open(self, folder: Path) -> Cache:
        """A cache; the same one every time."""
        if folder not in self._opened:
            self._opened[folder] = open_cache(folder)
        return self._opened[folder]

    def open_train(self, domain: Domain) -> ImageSet:
        """A domain's own images, of all its deliveries, with the labels that the source's have."""
        return join_sets([cache.images for cache in self._open(domain, Split.TRAIN)])

    def open_unlabelled(self, domain: Domain) -> ImageSet:
        """The images that estimates for a domain are made on: held-out ones where it has any, else those learned from."""
        held_out = self._open(domain, Split.HELD_OUT)
        return join_sets([cache.images for cache in held_out]) if held_out else self.open_train(domain).unlabelled()

    def has_held_out(self, domain: Domain) -> bool:
        """Whether a domain has images that no episode learns from; those of older adaptds have none."""
        return any(split is Split.HELD_OUT for _, split in self._parts[domain.id])

    def has_test(self, domain: Domain) -> bool:
        """Whether a domain brought a labelled test set itself."""
        return any(split is Split.TEST for _, split in self._parts[domain.id])

    def open_test(self, domain: Domain) -> ImageSet | None:
        """A domain's labelled test set: its own, else the images that people labelled to measure on; None where it has none."""
        if not self.has_test(domain):
            return self.open_labelled(domain, self.given.get(domain.id, {}))
        return join_sets([cache.images for cache in self._open(domain, Split.TEST)])

    def open_labelled(self, domain: Domain, labels: Given) -> ImageSet | None:
        """Images of a domain that came without labels, with those given to them; None where none of them is kept."""
        caches = [cache for split in (Split.HELD_OUT, Split.TRAIN) for cache in self._open(domain, split)] if labels else []
        found = [label_images(cache.images, labels) for cache in caches]
        return join_sets([images for images in found if len(images)]) if any(map(len, found)) else None

    def open_memory(self, domain: Domain) -> ImageSet | None:
        """A past domain's memory, with its pseudo-labels; None where it has none."""
        return self.open(self.memories[domain.id]).images if domain.id in self.memories else None

    def open_sample(self, domain: Domain) -> ImageSet:
        """Images of a domain: labelled ones where there are any."""
        return self.open_test(domain) or self.open_unlabelled(domain)

    def _open(self, domain: Domain, split: Split) -> list[Cache]:
        """The caches of a split. The store says which there are: one that is gone must not pass for none."""
        parts = self._parts[domain.id]
        return [self.open(self._layout.cache(domain.id, delivery, part)) for delivery, part in parts if part is split]


def read_image_sets(tx: Transaction, layout: Layout, learning: Episode | None = None) -> ImageSets:
    """Those of all domains that have a column in R and are not forgotten; also of the episode that is learning."""
    placed = sorted((d for d in tx.domains.list_all() if d.position is not None), key=lambda d: d.position or 0)
    done = tx.episodes.list_all(EpisodeState.DONE)
    forgotten = find_forgotten(placed, done)
    domains = [domain for domain in placed if domain.id not in forgotten]
    learned = {(episode.domain_id, episode.delivery) for episode in done}
    remembered = find_memory_episodes(done)
    memories = {d.id: layout.memory(d.id, remembered[d.id]) for d in domains if d.position and d.id in remembered}
    if learning is not None and learning.method == SUPERVISED:
        domains, memories = [], {}  # a source, which may begin a lineage: what is known of older ones does not count
    if learning is not None:
        learned.add((learning.domain_id, learning.delivery))
        if learning.domain_id not in {domain.id for domain in domains}:
            domains.append(tx.domains.get(learning.domain_id))
    parts = {d.id: tuple(part for part in tx.images.list_parts(d.id) if (d.id, part[0]) in learned) for d in domains}
    return ImageSets(layout, tuple(domains), parts, memories, read_given(tx, domains))


def label_images(images: ImageSet, labels: Given) -> ImageSet:
    """Those of a set that were given a label, with it, copied into memory."""
    rows = np.flatnonzero(np.isin(images.ids, list(labels)))
    known = np.array([labels[key] for key in images.ids[rows].tolist()], dtype=np.int64)
    return ImageSet(images.ids[rows], np.asarray(images.pixels[rows]), known)


def join_sets(sets: list[ImageSet]) -> ImageSet:
    """One set of several; memory maps stay what they are."""
    if len(sets) == 1:
        return sets[0]
    labels = [images.labels for images in sets if images.labels is not None]
    return ImageSet(
        np.concatenate([images.ids for images in sets]),
        Gathered([images.pixels for images in sets]),
        np.concatenate(labels) if len(labels) == len(sets) else None,
    )
