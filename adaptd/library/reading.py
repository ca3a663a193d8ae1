"""Opening one untrusted path: a regular file within the byte cap, read once, or a rejection. Knows no images."""

import errno
import os
import stat
from pathlib import Path

from adaptd.beneath import holding, open_file, opened
from adaptd.errors import ImageRejected
from adaptd.records import Reason

_UNTAR = "tar -xf FILE --one-top-level=FOLDER"
_ARCHIVES = (
    (0, b"PK\3\4", "a zip archive", "unzip FILE -d FOLDER"),
    (257, b"ustar", "a tar archive", _UNTAR),
    (0, b"\x1f\x8b", "a gzip file", _UNTAR),
    (0, b"BZh", "a bzip2 file", _UNTAR),
    (0, b"\xfd7zXZ", "an xz file", _UNTAR),
    (0, b"(\xb5/\xfd", "a zstd file", _UNTAR),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x FILE -oFOLDER"),
    (0, b"Rar!", "a rar archive", "unrar x FILE FOLDER/"),
)
"""Where which bytes tell what a file is, and what unpacks it."""
_HEAD = 512

# What is wrong with this path. Any other errno (no descriptors, no memory) is the machine's trouble and is passed on.
_REJECTED = {
    errno.ELOOP: (Reason.NOT_A_FILE, "a symbolic link; links are never followed"),
    errno.ENXIO: (Reason.NOT_A_FILE, "a socket or a device"),
    errno.ENODEV: (Reason.NOT_A_FILE, "a device"),
    errno.ENOTDIR: (Reason.NOT_A_FILE, "part of its path is not a folder"),
    errno.ENOENT: (Reason.UNREADABLE, "there is no such file"),
    errno.EACCES: (Reason.UNREADABLE, "no permission to read it"),
    errno.EPERM: (Reason.UNREADABLE, "no permission to read it"),
    errno.EIO: (Reason.UNREADABLE, "the disk reports an error"),
    errno.ESTALE: (Reason.UNREADABLE, "the network share lost it"),
    errno.ENAMETOOLONG: (Reason.UNREADABLE, "its name is too long"),
}


def read_untrusted(path: Path, max_bytes: int, root: Path | None = None) -> bytes:
    """The bytes of a regular, non-empty file of at most `max_bytes`.

    No step below `root`, the file's folder where that is None, may be a link. The opened thing itself is then asked what it is,
    so that nothing can be swapped in between.

    Raises:
        ImageRejected: it is something else, or cannot be read.
        OSError: the machine cannot read files at the moment.
    """
    try:
        inside = path.name if root is None else str(path.relative_to(root))
        with opened(root or path.parent, follow=root is None) as top, holding(top, inside) as (folder, name):
            descriptor = open_file(folder, name)
        try:
            return _read(descriptor, max_bytes)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _REJECTED:
            raise
        raise ImageRejected(*_REJECTED[error.errno]) from error


def find_archive(data: bytes) -> ImageRejected | None:
    """Why an archive is not let in, and what to do; None for anything else."""
    for offset, magic, name, command in _ARCHIVES:
        if data[offset : offset + len(magic)] == magic:
            return ImageRejected(Reason.FORMAT, f"{name}, which nobody looks into: unpack it (`{command}`) and drop the folder")
    return None


def _read(descriptor: int, max_bytes: int) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ImageRejected(Reason.NOT_A_FILE, "a folder, FIFO or device")
    if status.st_size > max_bytes:
        if archive := find_archive(os.pread(descriptor, _HEAD, 0)):
            raise archive
        raise ImageRejected(Reason.TOO_LARGE, f"{status.st_size} bytes, at most {max_bytes} are let in")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        # One byte more than allowed tells a file that grew since fstat.
        data = file.read(min(status.st_size, max_bytes) + 1)
    if len(data) > max_bytes:
        raise ImageRejected(Reason.TOO_LARGE, f"it grew beyond {max_bytes} bytes while it was read")
    if not data:
        raise ImageRejected(Reason.EMPTY, "0 bytes")
    return data
