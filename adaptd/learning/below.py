"""Activations that an episode has made, for other passes over the same images.

A model with the same weights below the cut need not be run there again. They are in half precision, so its answers differ by
about a thousandth.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import EpisodeData, Pool
from adaptd.learning.cut import Cut, Upper, cut
from adaptd.learning.settings import Depth
from adaptd.learning.views import ViewedSet, unpack
from adaptd.library.imageset import ImageSet

NOWHERE = -1
"""The place of an image that has no activations."""


class Below:
    """Activations of images as they are, by image id.

    Args:
        depth: what is above the cut.
        parts: the model that they were made by.
        data: with activations.
    """

    def __init__(self, depth: Depth, parts: Cut, data: EpisodeData) -> None:
        self.shape = parts.shape
        self._depth, self._weights = depth, parts.lower.digest()
        others = (data.held_out_source, data.held_out_target)
        sets = tuple(images for images in (*data.every, *others) if isinstance(images, ViewedSet) and len(images))
        self._pool = Pool("below", sets, 0, 1)
        self._ids, self._places = np.unique(np.concatenate([images.ids for images in sets]), return_index=True)

    def cut(self, model: Classifier) -> Upper | None:
        """What of a model is above; None where what is below it has other weights."""
        parts = cut(model, self._depth)
        return parts.upper if parts.lower.digest() == self._weights else None

    def find(self, images: ImageSet) -> NDArray[np.int64]:
        """Where each image's activations are, or NOWHERE."""
        near = np.searchsorted(self._ids, images.ids).clip(max=len(self._ids) - 1)
        return np.where(self._ids[near] == images.ids, self._places[near], NOWHERE)

    def read(self, places: NDArray[np.int64]) -> Tensor:
        """Activations from some places, as what is above takes them."""
        some = self._pool.sets[0]
        assert isinstance(some, ViewedSet)
        found = np.empty((len(places), *some.views[0].shape[1:]), dtype=np.float16)
        for images, here, rows in self._pool.locate(places):
            assert isinstance(images, ViewedSet)
            found[here] = images.views[0][rows]
        return unpack(found)
