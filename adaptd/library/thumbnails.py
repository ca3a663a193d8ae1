"""Small PNG pictures made from caches, for pages. Which cache an image is in is known elsewhere."""

import io
import threading
from collections import OrderedDict
from pathlib import Path

import numpy as np
from PIL import Image

from adaptd.errors import CacheUnusable
from adaptd.library.cache import open_cache
from adaptd.library.imageset import Pixels

KEPT = 8
"""Opened caches remembered: reading the index of a large one takes a second."""

Opened = tuple[dict[int, int], Pixels]


class Thumbnails:
    """Pictures by cache folder and image id; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: OrderedDict[Path, Opened] = OrderedDict()

    def find_png(self, folder: Path, image_id: int, side: int) -> bytes | None:
        """The picture, at most `side` pixels wide and high; None where the cache or the image is gone."""
        opened = self._find(folder)
        if opened is None or image_id not in opened[0]:
            return None
        rows, pixels = opened
        picture = Image.fromarray(np.ascontiguousarray(pixels[rows[image_id]].transpose(1, 2, 0)))
        picture.thumbnail((side, side))
        file = io.BytesIO()
        picture.save(file, "PNG")
        return file.getvalue()

    def _find(self, folder: Path) -> Opened | None:
        with self._lock:
            if folder in self._opened and folder.is_dir():  # it may have been swept away
                self._opened.move_to_end(folder)
                return self._opened[folder]
            self._opened.pop(folder, None)
            try:
                cache = open_cache(folder)
            except CacheUnusable:
                return None
            rows = {identity: row for row, identity in enumerate(cache.index.ids)}
            self._opened[folder] = rows, cache.images.pixels
            while len(self._opened) > KEPT:
                self._opened.popitem(last=False)
            return self._opened[folder]
