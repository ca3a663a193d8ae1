"""Trained check models on disk: a file for the source and one for each domain, with the hash of its bytes in its name.

They save time and are nothing else: what is damaged, or was made from other images, is made anew.
"""

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load, save

from adaptd.evaluation.checknet import CheckModel
from adaptd.files import replace_file, try_to_remove

Models = tuple[CheckModel, ...]

log = logging.getLogger(__name__)


class CheckFiles:
    """The folder that they are in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str, key: str, blank: Models, make: Callable[[], Models]) -> Models:
        """Check models that are kept, or made and kept.

        Args:
            name: of whom they are.
            key: stands for what they are made from.
            blank: models to fill.
            make: makes them where there are none, or others.
        """
        start = f"{name}-{key[:16]}-"
        for path in self._folder.glob(f"{start}*.safetensors"):
            if _fill(blank, path):
                return blank
        models = make()
        for path in self._folder.glob(f"{name}-*"):
            try_to_remove(path)
        states = ((f"{number}.{key}", value) for number, m in enumerate(models) for key, value in m.state_dict().items())
        self._write(start, save({key: value.clone(memory_format=torch.contiguous_format) for key, value in states}))
        return models

    def _write(self, start: str, content: bytes) -> None:
        path = self._folder / f"{start}{hashlib.sha256(content).hexdigest()}.safetensors"
        try:
            replace_file(path, content)
        except OSError as problem:  # the disk is full, say: the next episode makes them again
            log.warning("the check models could not be kept: %s", problem)
            try_to_remove(path.with_name(f".{path.name}"))


def _fill(models: Models, path: Path) -> bool:
    """Whether a file is what was written; its weights are in the models then."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    if hashlib.sha256(content).hexdigest() != path.stem.rpartition("-")[2]:
        return False
    tensors = load(content)
    for number, model in enumerate(models):
        start = f"{number}."
        model.load_state_dict({k.removeprefix(start): value for k, value in tensors.items() if k.startswith(start)})
    return True
