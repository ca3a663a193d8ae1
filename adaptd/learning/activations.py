"""Activations below a cut on disk: a file for each set of images and view, memory-mapped, in half precision.

A file appears by one rename when it is whole and on disk. Written again, it has the same bytes; so an episode that goes on after
a kill makes those that are missing, and learns from the same numbers.
"""

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaptd.files import make_folder, remove, replace_file, sync, sync_descriptor
from adaptd.learning.augment import Augmentation, draw_warp, to_float, warp
from adaptd.learning.batches import EpisodeData
from adaptd.learning.cut import Cut
from adaptd.learning.plan import Plan
from adaptd.learning.quick import Pass, quicken
from adaptd.learning.seeding import generator
from adaptd.learning.views import Activations, ViewedSet, pack
from adaptd.library.imageset import ImageSet

INDEX = "index.json"
IMAGES_PER_PASS = 32

ROOM_LEFT = 100_000_000
"""Bytes that stay free on the disk."""

Show = Callable[[int, int], None]
"""Told how many passes are done, and of how many; may raise to stop there."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where activations of one episode lie, and how they are made."""

    folder: Path
    cut: Cut
    plan: Plan

    def open(self, data: EpisodeData, show: Show, *, changed: bool = True) -> EpisodeData:
        """The same data with activations, which are made where they are not there; of changed views only if asked for.

        Raises:
            OSError: they do not fit on the disk.
        """
        sets = dict(self._list_sets(data))
        passes = sum(len(images) * len(views) for images, views in sets.values())
        sets = sets if changed else {name: (images, range(1)) for name, (images, _) in sets.items()}
        self._begin(sets)
        missing = [(name, view) for name, (_, views) in sets.items() for view in views if not self._file(name, view).is_file()]
        self._check_room(sum(self.count_bytes(len(sets[name][0])) for name, _ in missing))
        done, total = 0, sum(len(sets[name][0]) for name, _ in missing)
        run = self._choose_pass(passes) if missing else self.cut.lower
        for name, view in missing:
            self._write(name, sets[name][0], view, run, partial(_show_from, show, done, total))
            done += len(sets[name][0])
        opened = {name: self._view(name, images, views) for name, (images, views) in sets.items()}
        memories = tuple(opened[f"memory-{number}"] for number in range(len(data.memories)))
        held_out = (opened.get("held-out"), opened.get("target-held-out"))
        return EpisodeData(opened["source"], memories, opened.get("target"), *held_out)

    def count_bytes(self, images: int) -> int:
        """Of one view of so many images."""
        return 2 * images * self.cut.shape.numel()

    def _list_sets(self, data: EpisodeData) -> Iterator[tuple[str, tuple[ImageSet, range]]]:
        every = range(1 + count_changed(self.plan))
        yield "source", (data.source, every)
        for number, memory in enumerate(data.memories):
            yield f"memory-{number}", (memory, every)
        if data.target is not None:
            yield "target", (data.target, every)
        if data.held_out_source is not None:
            yield "held-out", (data.held_out_source, range(1))
        if data.held_out_target is not None:
            yield "target-held-out", (data.held_out_target, range(1))

    def _begin(self, sets: dict[str, tuple[ImageSet, range]]) -> None:
        """Keep files that are there only where they are of the same weights, images and views."""
        facts = (self.cut.shape, self.plan.seed, self.plan.augmentation, self.plan.warp, self.cut.lower.digest())
        digest = hashlib.sha256(repr(facts).encode())
        for name, (images, _) in sets.items():
            digest.update(name.encode() + images.ids.tobytes())
        index = json.dumps({"schema": "adaptd.activations/1", "sha256": digest.hexdigest()}).encode()
        path = self.folder / INDEX
        if not path.is_file() or path.read_bytes() != index:
            remove(self.folder)
            make_folder(self.folder)
            replace_file(path, index)

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if needed + ROOM_LEFT > free:
            told = f"activations of all images need {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free"
            raise OSError(errno.ENOSPC, f'{told}: make room, or set training.depth to "classifier" or "all"', str(self.folder))

    def _file(self, name: str, view: int) -> Path:
        return self.folder / f"{name}-{view}.f16"

    def _choose_pass(self, passes: int) -> Pass:
        """By what all of the files take, so that one of them made again has the same bytes."""
        size = self.cut.upper.settings.image_size
        return quicken(self.cut.lower, (3, size, size), passes)

    def _write(self, name: str, images: ImageSet, view: int, run: Pass, show: Callable[[int], None]) -> None:
        path = self._file(name, view)
        draft = path.with_name(f".{path.name}")
        with draft.open("wb") as file, torch.inference_mode():
            for start in range(0, len(images), IMAGES_PER_PASS):
                show(start)
                pixels = torch.from_numpy(np.array(images.pixels[start : start + IMAGES_PER_PASS]))
                changed = change_view(pixels, self.plan, name, view, start).to(self.plan.device)
                file.write(pack(run(changed)).data)
            file.flush()
            sync_descriptor(file.fileno())
        draft.replace(path)
        sync(self.folder)

    def _view(self, name: str, images: ImageSet, views: range) -> ViewedSet:
        mapped = tuple(self._map(self._file(name, view), len(images)) for view in views)
        return ViewedSet(images.ids, images.pixels, images.labels, mapped)

    def _map(self, path: Path, count: int) -> Activations:
        channels, *sides = self.cut.shape
        shape = (count, *sides, channels)
        return np.memmap(path, dtype=np.float16, mode="r", shape=shape) if count else np.empty(shape, dtype=np.float16)


def _show_from(show: Show, start: int, total: int, done: int) -> None:
    show(start + done, total)


def count_changed(plan: Plan) -> int:
    """How many changed views of each image are made: none where nothing changes them."""
    return plan.views if plan.augmentation or plan.warp else 0


def change_view(pixels: Tensor, plan: Plan, name: str, view: int, start: int) -> Tensor:
    """Images of a set from row `start` on, as a view shows them: augmented, and warped where the method warps."""
    if not view:
        return to_float(pixels)
    random = generator(plan.seed, "view", name, view, start)
    chances = Augmentation.draw(len(pixels), random)
    images = Augmentation(plan.augmentation)(pixels, chances) if plan.augmentation else to_float(pixels)
    return warp(images, draw_warp(len(pixels), random), plan.warp)
