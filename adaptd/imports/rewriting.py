"""Writing the files of a claimed drop anew after a sync that may have failed: the kernel may take for written what is not.

Who dropped them may still have their folders open: no step goes through a link, and no name that is there is written to.
"""

import errno
import os
import posixpath
import secrets
from contextlib import suppress
from pathlib import Path

from adaptd.beneath import REPLACED, entered, holding, opened, walk
from adaptd.errors import FolderUnusable
from adaptd.files import passing, sync_descriptor
from adaptd.intake.copying import Left, copy_entry
from adaptd.text import printable

_NO_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def write_again(folder: Path) -> None:
    """Write every file below a folder anew, under its own name and with its own times; what is being written stays as it is.

    Raises:
        FolderUnusable: a folder in it cannot be written to.
    """
    try:
        with opened(folder) as top:
            files = [inside for inside, entry in walk(top) if entry is not None and entry.is_file(follow_symlinks=False)]
            for inside in files:
                _replace(top, inside)
            for place in {posixpath.dirname(inside) for inside in files}:
                with passing(*REPLACED), entered(top, place) as descriptor:
                    sync_descriptor(descriptor)
    except OSError as problem:
        if problem.errno not in _NO_PERMISSION:
            raise
        raise FolderUnusable(
            f"files of {printable(folder)} may not be on the disk and cannot be written again: {problem.strerror}; "
            "make its folders writable for adaptd"
        ) from problem


def _replace(top: int, inside: str) -> None:
    with passing(*REPLACED), holding(top, inside) as (place, name):
        draft = f".{secrets.token_hex(8)}.part"
        try:
            copy_entry(place, name, inside, place, draft)
            os.rename(draft, name, src_dir_fd=place, dst_dir_fd=place)
        except Left:
            return
        except OSError:
            with suppress(OSError):
                os.unlink(draft, dir_fd=place)
            raise
