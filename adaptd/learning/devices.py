"""Where tensors are worked on: which devices there are, how batches get there, and in which precision an encoder runs.

Steps run on the device. What a model makes of whole sets of images is gathered on the processor, in double precision: results do
not depend on the device there, some devices have no doubles, and the features of many images need not fit into their memory.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from adaptd.errors import ConfigError
from adaptd.learning.batches import Batch

CPU = "cpu"


def use_threads(count: int) -> None:
    """So many of the processor's threads, from here on."""
    torch.set_num_threads(count)


def list_devices() -> list[str]:
    """Every device that torch can work on here, the fastest kind first."""
    cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*cuda, *(["mps"] if torch.backends.mps.is_available() else []), CPU]


def resolve_device(wanted: str) -> str:
    """The device of that name; `auto` is the first of all.

    Raises:
        ConfigError: torch does not see it.
    """
    known = list_devices()
    if wanted == "auto":
        return known[0]
    name = "cuda:0" if wanted == "cuda" else wanted
    if name not in known:
        raise ConfigError(
            f"training.device is {wanted}, but torch sees {', '.join(known)} alone: set it to auto or to one of these, "
            "or install a torch for your device, and its driver"
        )
    return name


def has_fast_halves(device: torch.device) -> bool:
    """Whether the device has bf16, in which an encoder learns faster there."""
    return device.type == "cuda" and _has_bf16()


@cache
def _has_bf16() -> bool:
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


class Ahead:
    """Batches on a device other than the processor: while a step runs, a thread reads the next one and, to CUDA, copies it."""

    def __init__(self, read: Callable[[int], Batch], steps: int, device: str) -> None:
        self._read, self._steps, self._device = read, steps, torch.device(device)
        self._thread = ThreadPoolExecutor(1, "adaptd-batches")
        self._next: tuple[int, Future[Batch]] | None = None
        is_cuda = self._device.type == "cuda"
        self._stream = torch.cuda.Stream(self._device) if is_cuda else None  # type: ignore[no-untyped-call]

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step, on the device."""
        waiting = self._next
        batch = waiting[1].result() if waiting is not None and waiting[0] == step else self._fetch(step)
        self._next = (step + 1, self._thread.submit(self._fetch, step + 1)) if step + 1 < self._steps else None
        if self._stream is None:
            return move_batch(batch, self._device)
        # Its memory belongs to the other stream, which must not use it again before this one is done with it.
        for tensor in (batch.images, batch.rows, *(part.labels for part in batch.parts if part.labels is not None)):
            tensor.record_stream(torch.cuda.current_stream(self._device))
        return batch

    def _fetch(self, step: int) -> Batch:
        batch = self._read(step)
        if self._stream is None:
            return batch
        with torch.cuda.stream(self._stream):
            moved = move_batch(batch, self._device)
        self._stream.synchronize()
        return moved


def move_batch(batch: Batch, device: torch.device) -> Batch:
    """A batch elsewhere: its images in one copy, and its parts as views of that."""
    sizes = [len(part.rows) for part in batch.parts]
    images, rows = (move(tensor, device) for tensor in (batch.images, batch.rows))
    pieces = zip(batch.parts, torch.split(images, sizes), torch.split(rows, sizes), strict=True)
    parts = [
        replace(part, images=own, rows=its, labels=None if part.labels is None else move(part.labels, device))
        for part, own, its in pieces
    ]
    return replace(batch, images=images, rows=rows, parts=tuple(parts))


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; to CUDA from pinned memory, so that the copy runs beside everything else."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
