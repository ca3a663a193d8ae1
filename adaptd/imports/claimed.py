"""What lies in a claimed drop, told from what its import took: a writer that holds the folder open may go on writing into it.

Reads only. What comes late is for `daemon.latecomers` to take in.
"""

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from stat import S_ISREG

from adaptd.beneath import holding, opened
from adaptd.intake.copying import hash_at
from adaptd.intake.tree import Stamp, read_files, read_stamp, read_tree
from adaptd.project.layout import Layout
from adaptd.records import DropRecord, Image, ImageState, Quarantined
from adaptd.text import printable

ListImages = Callable[[], Sequence[Image]]


@dataclass(frozen=True, slots=True)
class Claimed:
    """A drop's files at one moment, by their paths inside it, without those that wait to be moved to quarantine.

    `late` are those that no import has seen as they are, `overwritten` the images whose files are among these. `damaged` are
    those that are not what was accepted, though nobody wrote to them.
    """

    files: Mapping[str, Stamp]
    late: tuple[str, ...] = ()
    overwritten: tuple[int, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """As the drop's row has it, once all of them were taken."""
        return fingerprint_taken(self.files)


def fingerprint_taken(files: Mapping[str, Stamp], without: Collection[str] = ()) -> str:
    """A SHA-256 that changes with every file but those quarantined, which are given by the names that the store has for them."""
    lines = sorted(
        os.fsencode(f"{path}\0{stamp.kind}\0{stamp.size}\0{stamp.mtime_ns}")
        for path, stamp in files.items()
        if not (without and _is_among(path, without))
    )
    return hashlib.sha256(b"\0".join(lines)).hexdigest()


def read_claimed(
    folder: Path, drop: DropRecord, list_images: ListImages, pending: Collection[str] = (), *, every: bool = False
) -> Claimed:
    """Look at a drop that was imported.

    Args:
        folder: where it lies.
        drop: its row.
        list_images: gives those of its domain, if they are needed.
        pending: names of its quarantined files that still lie in it.
        every: if anything has changed, read every file; else only those that the clock does not speak for.

    Raises:
        OSError: it is gone, or cannot be read.
    """
    files = {path: stamp for path, stamp in read_files(folder).items() if not _is_among(path, pending)}
    claimed = Claimed(files)
    if drop.taken == claimed.fingerprint:
        return claimed
    images = list_images()
    if drop.taken is None and _looks_whole(files, drop, images):
        return claimed
    hashes, named = {image.sha256 for image in images}, _by_name(drop, images)
    every = every or drop.taken_at is None
    late, overwritten, damaged = [], list[int](), []
    for path, stamp in sorted(files.items()):
        rows, changed = named.get(spell(path), []), _changed_after(folder / path, drop.taken_at or drop.claimed_at)
        same_size = any(stamp.size == row.size_bytes for row in rows)
        if not every and changed and not same_size:
            is_known = False  # whatever it holds: the import finds out
        elif not every and rows and not changed:
            is_known = same_size
        else:
            is_known = _has_bytes_of(folder, path, stamp, hashes)
        if not is_known and rows and not changed:
            damaged.append(path)
        elif not is_known:
            late.append(path)
            overwritten += [row.id for row in rows]
    return Claimed(files, tuple(late), tuple(overwritten), tuple(damaged))


def is_as_claimed(folder: Path, drop: DropRecord, pending: Collection[str] = ()) -> bool:
    """Whether a drop that waits holds just what it held when an import last looked at it, or when it came."""
    if drop.taken is None:
        return read_tree(folder).fingerprint == drop.fingerprint
    return fingerprint_taken(read_files(folder), pending) == drop.taken


def has_changed(item: Quarantined, layout: Layout) -> bool:
    """Whether somebody went on writing to a file after it was quarantined."""
    if item.drop_id is None or item.path is None or item.size_bytes is None or Path(item.path).is_absolute():
        return False
    stamp = read_stamp(layout.state / item.path)
    return stamp.kind != 0 and (stamp.size, stamp.mtime_ns) != (item.size_bytes, item.mtime_ns)


def spell(path: str) -> str:
    """The name that the store has for a file, by its path inside the drop."""
    return path if path.isascii() else printable(Path(path))


def _is_among(path: str, names: Collection[str]) -> bool:
    """Whether a file, or a folder that it is in, has one of these names."""
    return bool(names) and any(part in names for part in accumulate(spell(path).split("/"), "{}/{}".format))


def _by_name(drop: DropRecord, images: Sequence[Image]) -> dict[str, list[Image]]:
    """The images of a drop's delivery whose files are kept, by name; other drops of it may have files of the same names."""
    named: dict[str, list[Image]] = {}
    for image in images:
        if image.delivery == drop.delivery and image.state is ImageState.ACCEPTED:
            named.setdefault(image.name, []).append(image)
    return named


def _looks_whole(files: Mapping[str, Stamp], drop: DropRecord, images: Sequence[Image]) -> bool:
    """Of a drop that an older adaptd imported, which wrote down no fingerprint: whether counts and sizes are right."""
    named = _by_name(drop, images)
    sizes = ((stamp.size, {row.size_bytes for row in named.get(spell(path), [])}) for path, stamp in files.items())
    return len(files) == drop.accepted + drop.duplicates and all(size in known for size, known in sizes if known)


def _changed_after(path: Path, moment: datetime) -> bool:
    """Whether a file was written, renamed or made after a moment; its time of change is the kernel's, and nobody can set it."""
    return os.lstat(path).st_ctime > moment.timestamp()


def _has_bytes_of(folder: Path, inside: str, stamp: Stamp, hashes: Collection[str]) -> bool:
    if not S_ISREG(stamp.kind):
        return False
    # It may be a link or a FIFO by now.
    with opened(folder) as top, holding(top, inside) as (place, name):
        return hash_at(place, name) in hashes
