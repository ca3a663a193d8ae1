"""What an episode learns from, and which of it is in which batch. Nothing here keeps random state: a step number is enough."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adaptd.errors import NothingToLearn
from adaptd.learning.augment import Augmentation, to_float
from adaptd.learning.seeding import generator
from adaptd.learning.views import Activations, ViewedSet, unpack
from adaptd.library.imageset import ImageSet


@dataclass(frozen=True, slots=True)
class EpisodeData:
    """The labelled source, the memories of past domains with pseudo-labels, and the new domain, without labels.

    `held_out_source`, images of the source that no episode learns from, says what the model reaches at home; without it the
    source's own have to do. On `held_out_target` the model is judged. No method learns from them.

    The bank holds one row for each image, in this order: source, memories, target.
    """

    source: ImageSet
    memories: tuple[ImageSet, ...] = ()
    target: ImageSet | None = None
    held_out_source: ImageSet | None = None
    held_out_target: ImageSet | None = None

    def __post_init__(self) -> None:
        if any(known.labels is None for known in (self.source, *self.memories)):
            raise NothingToLearn("the source and every memory need a label for each image")
        if not len(self.source) or (self.target is not None and not len(self.target)):
            raise NothingToLearn("there are no images: an episode needs a source and, to adapt, a target domain")
        if self.target is not None and self.target.labels is not None:  # a method must not see them
            object.__setattr__(self, "target", self.target.unlabelled())

    @property
    def every(self) -> tuple[ImageSet, ...]:
        """All that an episode looks at, in the order of the bank."""
        return (self.source, *self.memories, *(() if self.target is None else (self.target,)))

    def first_row(self, position: int) -> int:
        """The bank row at which the source (0), memory i (i + 1) or the target (last) begins."""
        return sum(map(len, (self.source, *self.memories)[:position]))


@dataclass(frozen=True, slots=True)
class Pool:
    """Where one part of every batch is drawn from.

    Args:
        name: the part's name in reports.
        sets: drawn from as if they were one.
        first_row: the bank row of its first image.
        share: images in a batch; all there are if the pool is smaller.
    """

    name: str
    sets: tuple[ImageSet, ...]
    first_row: int
    share: int

    def __len__(self) -> int:
        return sum(map(len, self.sets))

    @property
    def slices(self) -> int:
        """Batches in one pass: nearly equal slices of at most `share`, and of two images at least, for BatchNorm's sake."""
        return max(1, min(ceil(len(self) / self.share), len(self) // 2))

    def locate(self, indices: NDArray[np.int64]) -> Iterator[tuple[ImageSet, NDArray[np.int64], NDArray[np.int64]]]:
        """For each set which of the indices are in it, by their places, and their rows there."""
        first = 0
        for images in self.sets:
            here = ((indices >= first) & (indices < first + len(images))).nonzero()[0]
            yield images, here, indices[here] - first
            first += len(images)

    def read_pixels(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The images as they are."""
        pixels = np.empty((len(indices), *self.sets[0].pixels.shape[1:]), dtype=np.uint8)
        for images, here, rows in self.locate(indices):
            pixels[here] = images.pixels[rows]
        return pixels

    def read_views(self, indices: NDArray[np.int64], chances: NDArray[np.float32]) -> Activations:
        """Activations of a changed view of each image, drawn by its chance in 0…1; of itself where there are no others."""
        some = self.sets[0]
        assert isinstance(some, ViewedSet)
        activations = np.empty((len(indices), *some.views[0].shape[1:]), dtype=np.float16)
        drawn = np.ceil((1 - chances) * some.changed).astype(np.int64)
        for images, here, rows in self.locate(indices):
            assert isinstance(images, ViewedSet)
            for view in np.unique(drawn[here]):
                chosen = drawn[here] == view
                activations[here[chosen]] = images.views[view][rows[chosen]]
        return activations

    def read_labels(self, indices: NDArray[np.int64]) -> Tensor | None:
        """Their labels."""
        if self.sets[0].labels is None:
            return None
        labels = np.zeros(len(indices), dtype=np.int64)
        for images, here, rows in self.locate(indices):
            if images.labels is not None:
                labels[here] = images.labels[rows]
        return torch.from_numpy(labels)


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The images of one pool in a batch. Labels are None for the target."""

    name: str
    images: Tensor
    rows: Tensor
    labels: Tensor | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's images, augmented: all of them, and by part (views of the same). `steps` is the length of the episode.

    Where only a part of the model is trained, they are activations of views that were `made` beforehand, warped already.
    """

    images: Tensor
    rows: Tensor
    parts: tuple[BatchPart, ...]
    step: int
    steps: int
    seed: int
    made: bool = False

    def generator(self, purpose: str) -> torch.Generator:
        """A generator for what the method draws in this step."""
        return generator(self.seed, purpose, self.step)


class Batches:
    """On the processor, batch number i of an episode, for any i. The last pool sets the pace: its passes are the epochs."""

    def __init__(self, pools: Sequence[Pool], epochs: int, seed: int, augmentation: Augmentation | None) -> None:
        self.pools = tuple(pools)
        self.steps = epochs * self.pools[-1].slices if self.pools else 0
        self._seed = seed
        self._augmentation = augmentation
        self._orders: dict[str, tuple[int, Tensor]] = {}

    def __getitem__(self, step: int) -> Batch:
        """Read, augment and cut the batch of a step."""
        chosen = [self._indices(pool, step) for pool in self.pools]
        made = isinstance(self.pools[0].sets[0], ViewedSet)
        images = self._views(chosen, step) if made else self._augmented(chosen, step)
        rows = [pool.first_row + indices for pool, indices in zip(self.pools, chosen, strict=True)]
        labels = [pool.read_labels(indices.numpy()) for pool, indices in zip(self.pools, chosen, strict=True)]
        views = images.tensor_split(np.cumsum([len(indices) for indices in chosen])[:-1].tolist())
        parts = tuple(map(BatchPart, [pool.name for pool in self.pools], views, rows, labels))
        return Batch(images, torch.cat(rows), parts, step, self.steps, self._seed, made)

    def _indices(self, pool: Pool, step: int) -> Tensor:
        """The images of this step: a slice of one permutation drawn from (seed, pool, pass)."""
        number, position = divmod(step, pool.slices)
        if self._orders.get(pool.name, (None,))[0] != number:
            order = torch.randperm(len(pool), generator=generator(self._seed, "order", pool.name, number))
            self._orders[pool.name] = number, order
        return self._orders[pool.name][1].tensor_split(pool.slices)[position]

    def _views(self, chosen: list[Tensor], step: int) -> Tensor:
        sizes, random = [len(indices) for indices in chosen], generator(self._seed, "augment", step)
        chances = torch.rand(sum(sizes), generator=random).tensor_split(np.cumsum(sizes)[:-1].tolist())
        every = [
            pool.read_views(indices.numpy(), own.numpy()) for pool, indices, own in zip(self.pools, chosen, chances, strict=True)
        ]
        return unpack(np.concatenate(every))

    def _augmented(self, chosen: list[Tensor], step: int) -> Tensor:
        read = [pool.read_pixels(indices.numpy()) for pool, indices in zip(self.pools, chosen, strict=True)]
        pixels = torch.from_numpy(np.concatenate(read))
        if self._augmentation is None:
            return to_float(pixels)
        return self._augmentation(pixels, self._augmentation.draw(len(pixels), generator(self._seed, "augment", step)))
