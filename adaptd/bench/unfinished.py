"""A cell that is being run, on disk: after a kill it goes on from its last checkpoint, and ends the same."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from adaptd.errors import CheckpointError
from adaptd.evaluation.matrix import Entry
from adaptd.files import remove, replace_file, write_file
from adaptd.learning.backbones import Classifier
from adaptd.learning.checkpoint import read_checkpoint, write_checkpoint
from adaptd.learning.grcl import MemorySelection
from adaptd.learning.loop import Training
from adaptd.learning.weights import load_classifier, save_classifier
from adaptd.records import AccuracyKind

CHECKPOINT_SECONDS = 60.0
PARTS = ("ids", "labels", "confidence")
"""The tensors of a memory."""

Row = tuple[Entry | None, ...]


@dataclass(frozen=True, slots=True)
class Episode:
    """What an episode came to; the first is the source model as it is, with neither report nor memory."""

    row: Row
    report: dict[str, Any] | None = None
    memory: MemorySelection | None = None


class Unfinished:
    """The folder of a cell: weights `<t>.safetensors` and facts `<t>.json` after each episode, and the newest checkpoint.

    Args:
        folder: made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._saved = time.monotonic()

    def read(self) -> list[Episode]:
        """The episodes that are over."""
        episodes: list[Episode] = []
        while (file := self._file(len(episodes), "json")).is_file():
            episodes.append(_parse(file.read_bytes(), self._file(len(episodes), "memory.safetensors")))
        return episodes

    def load(self, number: int) -> Classifier:
        """The model after an episode."""
        return load_classifier(self._file(number, "safetensors"))

    def add(self, number: int, model: Classifier, episode: Episode) -> None:
        """An episode is over: its facts are written last, and checkpoints of it are of no use any more."""
        write_file(self._file(number, "safetensors"), save_classifier(model))
        if episode.memory is not None:
            tensors = {part: getattr(episode.memory, part).contiguous() for part in PARTS}
            write_file(self._file(number, "memory.safetensors"), save(tensors))
        replace_file(self._file(number, "json"), _render(episode))
        for old in self._checkpoints():
            remove(old)

    def resume(self, training: Training) -> None:
        """Go on from the newest checkpoint; where there is none that can be used, from the episode's start."""
        for folder in self._checkpoints():
            try:
                training.restore(read_checkpoint(folder, folder.name.rpartition("-")[2]))
            except CheckpointError:
                remove(folder)
            else:
                return

    def save(self, training: Training) -> None:
        """Between two steps: a checkpoint, if the last one is old enough."""
        if time.monotonic() - self._saved < CHECKPOINT_SECONDS:
            return
        old = self._checkpoints()
        draft = self._folder / "draft"
        remove(draft)
        digest = write_checkpoint(draft, training.state())
        draft.rename(self._folder / f"checkpoint-{training.step}-{digest}")
        for folder in old:
            remove(folder)
        self._saved = time.monotonic()

    def _checkpoints(self) -> list[Path]:
        """Newest first."""
        return sorted(self._folder.glob("checkpoint-*"), key=lambda folder: -int(folder.name.split("-")[1]))

    def _file(self, number: int, suffix: str) -> Path:
        return self._folder / f"{number}.{suffix}"


@contextmanager
def claiming(file: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a lock file for the length of a block; False where another process has it and nobody is to wait."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _render(episode: Episode) -> bytes:
    row = [None if entry is None else [entry.value, entry.n] for entry in episode.row]
    return json.dumps({"row": row, "report": episode.report}).encode()


def _parse(content: bytes, memory: Path) -> Episode:
    facts = json.loads(content)
    row = tuple(None if entry is None else Entry(entry[0], AccuracyKind.MEASURED, entry[1]) for entry in facts["row"])
    tensors: dict[str, torch.Tensor] = load(memory.read_bytes()) if memory.is_file() else {}
    return Episode(row, facts["report"], MemorySelection(**tensors) if tensors else None)
