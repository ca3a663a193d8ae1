"""What a model makes of very many images, row for row: in a file without a name, memory-mapped, where the images lie in one too.

The kernel drops mapped pages when it needs the memory, so a set may be larger than that. The file is gone when nobody reads it.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaptd.learning.views import ViewedSet
from adaptd.library.imageset import ImageSet

PREFIX = ".scratch-"


class Rows:
    """Rows of float32 numbers, added some at a time.

    Args:
        folder: on whose filesystem the file is; None: they stay in memory.
        width: of a row.
    """

    def __init__(self, folder: Path | None, width: int) -> None:
        self._width, self._added = width, list[Tensor]()
        # Written, not mapped, until it is whole: a full disk is an error then, and no signal that ends the process.
        self._file = None if folder is None else tempfile.TemporaryFile(prefix=PREFIX, dir=folder)  # noqa: SIM115  # read() closes it

    def add(self, rows: Tensor) -> None:
        """Put some below those that are there."""
        if self._file is None:
            self._added.append(rows)
        else:
            self._file.write(rows.contiguous().numpy().data)

    def read(self) -> Tensor:
        """All of them, [n, width]; nothing can be added afterwards."""
        if self._file is None:
            return torch.cat(self._added) if self._added else torch.empty(0, self._width)
        with self._file as file:
            file.flush()
            count = file.tell() // (4 * self._width)
            if not count:
                return torch.empty(0, self._width)
            return torch.from_numpy(np.memmap(file, dtype=np.float32, mode="c", shape=(count, self._width)))


def find_folder(images: ImageSet) -> Path | None:
    """Where the images, or their activations, lie; None where they are in memory, or in several places."""
    read = images.views[0] if isinstance(images, ViewedSet) else images.pixels
    name = getattr(read, "filename", None)
    return None if name is None else Path(name).parent
