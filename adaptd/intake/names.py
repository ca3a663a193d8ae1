"""Names in the inbox: what is clutter, what may still be in the making, and which domain a folder's name stands for."""

import re

from adaptd.records import SOURCE
from adaptd.text import is_hidden

READY_MARK = "_READY"
TEMPORARY_SUFFIXES = (".part", ".tmp", ".crdownload", ".partial", ".filepart")
TEMPORARY_PREFIXES = (".", "~syncthing~")
"""rsync writes `.name.XXXXXX`, Syncthing `.syncthing.name`: every dot file may be one that is still being written."""
CLUTTER = frozenset({".ds_store", "thumbs.db", "desktop.ini", ".directory", ".gitkeep", ".nomedia", "__macosx", "lost+found"})
"""What file managers, archives and filesystems leave lying about, in lower case; `._*` beside them."""

_ESCAPE = r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF
"""How Python has bytes of a file name that are not UTF-8."""


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
    r"""A domain's name from its folder's: the same, so that other folders are other domains, and people see what they wrote.

    Bytes that are not UTF-8, characters that are not seen and `*`, which stands for everything, are spelled out as escapes; a
    backslash is doubled, so that no two folders have one name. None where nothing is to be seen of it, for `source`, which is
    the labelled source's own name, and for what no folder in the inbox can be called.
    """
    if folder.strip().lower() in {"", SOURCE} or folder.startswith(".") or "/" in folder:
        return None
    return "".join(map(_spell, folder)) if folder != "*" else r"\x2a"


def find_folder_name(domain: str) -> str:
    """The folder that a domain's name is of."""
    return re.sub(_ESCAPE, _read_escape, domain)


def find_old_name(folder: str) -> str:
    """The name that a folder's domain had before revision 0004 of the store: lower case, with dashes for most characters."""
    return re.sub(r"[^a-z0-9._-]+", "-", folder.lower()).strip("-._")[:63]


def _spell(sign: str) -> str:
    if sign == "\\":
        return "\\\\"
    if _FIRST_BYTE <= ord(sign) <= _LAST_BYTE:
        return f"\\x{ord(sign) - 0xDC00:02x}"
    if not is_hidden(sign):
        return sign
    # From 128 on \\x is for bytes that are not UTF-8.
    form = "\\x{:02x}" if ord(sign) < 0x80 else "\\u{:04x}" if ord(sign) < 0x10000 else "\\U{:08x}"
    return form.format(ord(sign))


def _read_escape(escape: re.Match[str]) -> str:
    kind, digits = escape[0][1], escape[0][2:]
    if kind == "\\":
        return kind
    number = int(digits, 16)
    return chr(number + 0xDC00) if kind == "x" and number >= 0x80 else chr(number)
