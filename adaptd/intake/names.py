"""Names in the inbox: what is clutter, what may still be in the making, and which domain a folder's name stands for."""

import re

from adaptd.records import SOURCE

READY_MARK = "_READY"
TEMPORARY_SUFFIXES = (".part", ".tmp", ".crdownload", ".partial", ".filepart")
TEMPORARY_PREFIXES = (".", "~syncthing~")
"""rsync writes `.name.XXXXXX`, Syncthing `.syncthing.name`: every dot file may be one that is still being written."""
CLUTTER = frozenset({".ds_store", "thumbs.db", "desktop.ini", ".directory", ".gitkeep", ".nomedia", "__macosx", "lost+found"})
"""What file managers, archives and filesystems leave lying about, in lower case; `._*` beside them."""


def is_clutter(name: str) -> bool:
    """Whether a file or folder of this name is known to be harmless and of no use."""
    return name.startswith("._") or name.lower() in CLUTTER


def is_temporary(name: str) -> bool:
    """Whether a file or folder of this name may still be in the making. Clutter has such names too: ask about it first."""
    return name.startswith(TEMPORARY_PREFIXES) or name.lower().endswith(TEMPORARY_SUFFIXES)


def is_passed_over(name: str) -> bool:
    """Whether a file or folder of this name is no part of a drop: clutter, still being written, or the mark."""
    return name == READY_MARK or is_temporary(name) or is_clutter(name)


def find_domain_name(folder: str) -> str | None:
    """A domain's name from its folder's: lower case, and what names may not have becomes a dash.

    None where nothing is left of it, and for `source`, which is the labelled source's own name.
    """
    name = re.sub(r"[^a-z0-9._-]+", "-", folder.lower()).strip("-._")[:63]
    return name if name not in {"", SOURCE} else None
