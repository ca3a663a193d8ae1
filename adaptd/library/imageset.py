"""The currency between library, learning and evaluation: images as an array, keyed by image id."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray


class Pixels(Protocol):
    """Images, uint8 [n, 3, H, W], as an array is read: by number, slice or rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """[n, 3, H, W]."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> NDArray[np.uint8]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __array__(self) -> NDArray[np.uint8]: ...


class Gathered:
    """Images that lie in several arrays, or apart in one, read as one array: only what is asked for is copied.

    Args:
        parts: arrays of images of one size; one at least.
        rows: which of their images, numbered through all of them; None: all.
    """

    def __init__(self, parts: Sequence[Pixels], rows: NDArray[np.int64] | None = None) -> None:
        sizes = {tuple(part.shape[1:]) for part in parts}
        if len(sizes) != 1:
            raise ValueError(f"images of one size can be gathered, not of {sorted(sizes)}")
        self._parts = tuple(parts)
        self._rows = np.arange(sum(map(len, parts))) if rows is None else rows
        self.shape: tuple[int, ...] = (len(self._rows), *sizes.pop())

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Any, /) -> NDArray[np.uint8]:
        chosen = np.asarray(self._rows[rows])
        wanted, first = chosen.reshape(-1), 0
        found = np.empty((len(wanted), *self.shape[1:]), dtype=np.uint8)
        for part in self._parts:
            here = np.flatnonzero((wanted >= first) & (wanted < first + len(part)))
            found[here] = part[wanted[here] - first]
            first += len(part)
        return found.reshape(*chosen.shape, *self.shape[1:])

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[np.uint8]:
        return np.asarray(self[:], dtype)


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Decoded images of one domain, or of its memory. Row i of every array belongs to the same image.

    Args:
        ids: the images' ids, int64 [n], unique.
        pixels: uint8 [n, 3, H, W]; may be a memory map, or several, so slices are read when asked for.
        labels: class indices, int64 [n]: true labels, or pseudo-labels in a memory; None where unknown.
    """

    ids: NDArray[np.int64]
    pixels: Pixels
    labels: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        if len(self.pixels.shape) != 4 or self.pixels.shape[1] != 3 or len(self.pixels) != n:
            raise ValueError(f"pixels must be [{n}, 3, H, W], not {list(self.pixels.shape)}")
        if self.labels is not None and len(self.labels) != n:
            raise ValueError(f"{len(self.labels)} labels for {n} images")

    def __len__(self) -> int:
        return len(self.ids)

    def unlabelled(self) -> Self:
        """The same images as a method may see a target domain: without labels."""
        return replace(self, labels=None)


def spread_rows(count: int, most: int) -> NDArray[np.int64]:
    """All rows of so many; of more than `most`, some at even distances."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
