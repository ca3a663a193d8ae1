"""Image sets with activations below a cut: of each image as it is, and of some changed views of it. Making them is elsewhere."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adaptd.library.imageset import ImageSet

Activations = NDArray[np.float16]
"""[n, h, w, C] or [n, features], in half precision; may be a memory map."""


@dataclass(frozen=True, slots=True)
class ViewedSet(ImageSet):
    """Images that are read as activations. View 0 is of each image itself, the others are of changed ones."""

    views: tuple[Activations, ...] = ()

    @property
    def changed(self) -> int:
        """How many views are of changed images."""
        return len(self.views) - 1

    def read(self, rows: NDArray[np.int64], view: int = 0) -> Tensor:
        """Activations of some images, as what is above the cut takes them."""
        return unpack(self.views[view][rows])


def unpack(stored: Activations) -> Tensor:
    """float32, [n, C, h, w] with channels last in memory, or [n, features]. From an array in memory, which is not kept."""
    halves = torch.from_numpy(np.asarray(stored))
    return (halves if halves.ndim == 2 else halves.permute(0, 3, 1, 2)).float()


def pack(activations: Tensor) -> Activations:
    """The reverse of `unpack`; what is too large for half precision becomes the largest that is not."""
    most = torch.finfo(torch.float16).max
    halves = activations.clamp(-most, most).half().cpu()
    packed: Activations = (halves if halves.ndim == 2 else halves.permute(0, 2, 3, 1)).contiguous().numpy()
    return packed
