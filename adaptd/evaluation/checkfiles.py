"""What check models learned or answered, on disk: files of the source and of each domain, with the hash of the bytes in the name.

They save time and are nothing else: what is damaged, or was made from other images, is made anew.
"""

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from adaptd.files import replace_file, try_to_remove
from adaptd.library.imageset import ImageSet, spread_rows

Tensors = dict[str, Tensor]

FINGERPRINT_IMAGES = 64
"""Images whose pixels are looked at to tell two sets apart."""

log = logging.getLogger(__name__)


class CheckFiles:
    """The folder that they are in; None: nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str, key: str, make: Callable[[], Tensors]) -> Tensors:
        """Tensors that are kept, or made and kept.

        Args:
            name: of whom they are.
            key: stands for what they are made from.
            make: makes them where there are none, or others.
        """
        if self._folder is None:
            return make()
        start = f"{name}-{key[:16]}-"
        for path in self._folder.glob(f"{start}*.safetensors"):
            kept = _read(path)
            if kept is not None:
                return kept
        tensors = make()
        for path in self._folder.glob(f"{name}-*"):
            try_to_remove(path)
        self._write(self._folder, start, save({k: v.clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}))
        return tensors

    def _write(self, folder: Path, start: str, content: bytes) -> None:
        path = folder / f"{start}{hashlib.sha256(content).hexdigest()}.safetensors"
        try:
            replace_file(path, content)
        except OSError as problem:  # the disk is full, say: the next episode makes them again
            log.warning("what the check models learned could not be kept: %s", problem)
            try_to_remove(path.with_name(f".{path.name}"))


def make_key(*facts: str) -> str:
    """Stands for all of these facts."""
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def fingerprint(images: ImageSet) -> str:
    """Differs for another set: by ids, labels and some of the pixels."""
    digest = hashlib.sha256(str(images.pixels.shape).encode())
    for array in (images.ids, images.labels, images.pixels[spread_rows(len(images), FINGERPRINT_IMAGES)]):
        digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _read(path: Path) -> Tensors | None:
    """What is in a file, if it is what was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return load(content) if hashlib.sha256(content).hexdigest() == path.stem.rpartition("-")[2] else None
