"""Many untrusted files → a draft: verified, decoded once, without ids. The caller names the images, then seals caches.

with decode_files(found, state / "cache", preprocessing, limits) as draft:
    ids = store.add(draft.images)           # or whatever gives ids
    draft.seal(state / "cache" / "7-train", [(image, id) …])
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from adaptd.library.cache import PIXELS, Index, publish, unfinished
from adaptd.library.folders import Found
from adaptd.library.pool import Answer, decode_in_processes, decoder_count
from adaptd.library.preprocessing import Limits, Preprocessing

ShowProgress = Callable[[int, int], None]
"""Told how many files are done, of how many."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One usable image. `row` is its place in the draft's pixels; width and height are the picture's own."""

    row: int
    file: Found
    sha256: str
    size_bytes: int
    width: int
    height: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """One file that cannot be used, and why: for the quarantine."""

    file: Found
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A file with the very bytes of an earlier one, which is kept in its place."""

    file: Found
    original: Found


@dataclass(frozen=True, slots=True)
class Draft:
    """Decoded images on their way into caches, in the order of their rows.

    That is the order of the files given, but for one thing: where a file was rejected or a duplicate, the last image
    takes its row. So the order depends on the files alone, and no gap has to be copied away.
    """

    preprocessing: Preprocessing
    images: tuple[Decoded, ...]
    rejected: tuple[Rejected, ...]
    duplicates: tuple[Duplicate, ...]
    pixels: Path

    def seal(self, target: Path, named: Sequence[tuple[Decoded, int]], labels: Sequence[int] | None = None) -> None:
        """Make the cache `target` of some of the images, in the order given, each with its id and perhaps its label.

        May be called several times: for a train and a test set, say.
        """
        index = Index(
            self.preprocessing,
            ids=tuple(identity for _, identity in named),
            sha256=tuple(image.sha256 for image, _ in named),
            crc32=tuple(image.crc32 for image, _ in named),
            labels=None if labels is None else tuple(labels),
        )
        with unfinished(target.parent) as building:
            self._place([image.row for image, _ in named], building / PIXELS)
            publish(building, index, target)

    def _place(self, rows: Sequence[int], target: Path) -> None:
        size = self.preprocessing.row_bytes
        if rows == list(range(len(rows))) and self.pixels.stat().st_size == len(rows) * size:
            # All of them, in order: a second name for the same bytes saves copying. Not every filesystem has that.
            with contextlib.suppress(OSError):
                os.link(self.pixels, target)
                return
        with self.pixels.open("rb") as source, target.open("wb") as file:
            for row in rows:
                source.seek(row * size)
                file.write(source.read(size))


@contextmanager
def decode_files(
    files: Sequence[Found],
    workspace: Path,
    preprocessing: Preprocessing,
    limits: Limits,
    progress: ShowProgress | None = None,
) -> Iterator[Draft]:
    """Decode files in processes of their own, on the cores this one may use. A file that cannot be used is data.

    The pixels wait in `workspace` until they are sealed; it must be on the filesystem of the caches.

    Raises:
        OSError: the machine cannot go on: disk full, no descriptors.
    """
    with unfinished(workspace) as building:
        pixels = building / PIXELS
        pixels.touch()
        jobs = ((row, file.path, file.root) for row, file in enumerate(files))
        answers: dict[int, Answer] = {}
        count = decoder_count(len(files))
        for row, answer in decode_in_processes(jobs, pixels, preprocessing, limits, count) if files else ():
            answers[row] = answer
            if progress is not None:
                progress(len(answers), len(files))
        images, rejected, duplicates = _sort(files, answers)
        answers.clear()
        yield Draft(preprocessing, _close_gaps(images, pixels, preprocessing.row_bytes), rejected, duplicates, pixels)


def _sort(
    files: Sequence[Found], answers: dict[int, Answer]
) -> tuple[tuple[Decoded, ...], tuple[Rejected, ...], tuple[Duplicate, ...]]:
    """What is usable, what is not, and what is there twice."""
    images: dict[str, Decoded] = {}
    rejected: list[Rejected] = []
    duplicates: list[Duplicate] = []
    for row, file in enumerate(files):
        answer = answers[row]
        if "reason" in answer:
            rejected.append(Rejected(file, **answer))
        elif (original := images.get(answer["sha256"])) is not None:
            duplicates.append(Duplicate(file, original.file))
        else:
            images[answer["sha256"]] = Decoded(row, file, **answer)
    return tuple(images.values()), tuple(rejected), tuple(duplicates)


def _close_gaps(images: Sequence[Decoded], pixels: Path, row_bytes: int) -> tuple[Decoded, ...]:
    """Move the last images into the rows that nothing usable is in, and cut the file behind the last."""
    count = len(images)
    by_row = {image.row: image for image in images}
    gaps = [row for row in range(count) if row not in by_row]
    with pixels.open("r+b") as file:
        for gap, image in zip(gaps, reversed(images), strict=False):
            file.seek(image.row * row_bytes)
            content = file.read(row_bytes)
            file.seek(gap * row_bytes)
            file.write(content)
            by_row[gap] = replace(image, row=gap)
        file.truncate(count * row_bytes)
    return tuple(by_row[row] for row in range(count))
