"""The currency between library, learning and evaluation: images as an array, keyed by image id."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Decoded images of one domain, or of its memory. Row i of every array belongs to the same image.

    Args:
        ids: the images' ids, int64 [n], unique.
        pixels: uint8 [n, 3, H, W]; may be a memory map, so slices are read when asked for.
        labels: class indices, int64 [n]: true labels, or pseudo-labels in a memory; None where unknown.
    """

    ids: NDArray[np.int64]
    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        if self.pixels.ndim != 4 or self.pixels.shape[1] != 3 or len(self.pixels) != n:
            raise ValueError(f"pixels must be [{n}, 3, H, W], not {list(self.pixels.shape)}")
        if self.labels is not None and len(self.labels) != n:
            raise ValueError(f"{len(self.labels)} labels for {n} images")

    def __len__(self) -> int:
        return len(self.ids)

    def unlabelled(self) -> Self:
        """The same images as a method may see a target domain: without labels."""
        return replace(self, labels=None)
