"""What one drop folder holds at one moment, read from names and lstat alone. Opens no file and follows no link."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_IFDIR, S_IFMT, S_ISDIR
from typing import NamedTuple

from adaptd.beneath import Identity, identify, opened, walk
from adaptd.intake.names import READY_MARK, is_clutter, is_temporary
from adaptd.text import printable


class Stamp(NamedTuple):
    """What of an entry changes when its content does. A folder has only its kind: its files speak for it."""

    kind: int
    size: int
    mtime_ns: int


GONE = Stamp(0, 0, 0)
"""Of an entry that vanished while it was looked at: equal to nothing that stands still."""

_FOLDER = Stamp(S_IFDIR, 0, 0)


@dataclass(frozen=True, slots=True)
class Tree:
    """A drop at one moment. Clutter and the mark are no part of it.

    Args:
        fingerprint: SHA-256 of all entries, with their sizes and times; no inodes, so that it outlives a remount.
        files: how many there are that are not temporary, whatever their kind; links and FIFOs count.
        size_bytes: of those files.
        ready: whether `_READY` stands at the top.
        temporary: files that may still be in the making, by their path inside the drop.
        identity: of the folder that was looked at.
        mount: a folder in it that is on another filesystem, by its path inside.
        longest: how many bytes the longest path inside has, as `printable` spells it.
    """

    fingerprint: str
    files: int
    size_bytes: int
    ready: bool
    temporary: Mapping[str, Stamp]
    identity: Identity | None = None
    mount: str | None = None
    longest: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to take."""
        return not self.files and not self.temporary


def read_tree(folder: Path) -> Tree:
    """Look at a whole drop.

    Raises:
        OSError: the drop, or a folder in it, is gone, a link, or cannot be read.
    """
    with opened(folder) as top:
        return _read(top)


def _read(top: int) -> Tree:
    lines, temporary, ready, files, size_bytes, longest = [], {}, False, 0, 0, 0
    identity, mount = identify(top), None
    for path, stamp, device in _walk(top):
        name = path.rpartition("/")[2]
        if name == READY_MARK:
            ready = ready or path == READY_MARK
            continue
        lines.append(f"{path}\0{stamp.kind}\0{stamp.size}\0{stamp.mtime_ns}")
        longest = max(longest, len(path) if path.isascii() else len(printable(Path(path)).encode()))
        if S_ISDIR(stamp.kind):
            mount = path if device != identity[0] else mount
        elif any(map(is_temporary, path.split("/"))):
            temporary[path] = stamp
        else:
            files += 1
            size_bytes += stamp.size
    lines.sort()
    fingerprint = hashlib.sha256(os.fsencode("\0".join(lines))).hexdigest()
    return Tree(fingerprint, files, size_bytes, ready, temporary, identity, mount, longest)


def read_files(folder: Path) -> dict[str, Stamp]:
    """The stamps of all files of a drop by their paths inside it, the temporary ones among them; no clutter and no mark.

    Raises:
        OSError: the drop, or a folder in it, is gone, a link, or cannot be read.
    """
    with opened(folder) as top:
        found = {path: stamp for path, stamp, _ in _walk(top) if stamp != GONE and not S_ISDIR(stamp.kind)}
    return {path: stamp for path, stamp in found.items() if path.rpartition("/")[2] != READY_MARK}


def read_stamp(path: str | Path, folder: int | None = None) -> Stamp:
    """The stamp of one entry, by its name in an open folder where one is given; GONE where there is none."""
    try:
        return _stamp(os.lstat(path, dir_fd=folder))
    except (FileNotFoundError, NotADirectoryError):
        return GONE


def _stamp(status: os.stat_result) -> Stamp:
    kind = S_IFMT(status.st_mode)
    return _FOLDER if kind == S_IFDIR else Stamp(kind, status.st_size, status.st_mtime_ns)


def _walk(top: int) -> Iterator[tuple[str, Stamp, int]]:
    """Path inside the drop, stamp and device of everything but clutter."""
    for path, entry in walk(top, is_clutter):
        if entry is None:
            yield path, GONE, 0
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            yield path, GONE, 0
        else:
            yield path, _stamp(status), status.st_dev
