"""Text from outside as people may see it: odd bytes, hidden characters, moments. Decides nothing about where it is shown."""

import os
import unicodedata
from datetime import datetime
from pathlib import Path

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of characters that are not seen, and change what is: controls, directions, line breaks, unassigned."""


def is_hidden(character: str) -> bool:
    """Whether a character would break lines, turn the direction, or not be seen at all."""
    return unicodedata.category(character) in HIDDEN


def escape_hidden(text: str) -> str:
    """Text from outside as a terminal may see it: line breaks, control characters and marks of direction as escapes."""
    return "".join(_escape(sign) if is_hidden(sign) else sign for sign in text)


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


def printable(path: Path) -> str:
    """A path as text that every database and terminal takes: bytes that are not UTF-8 are written as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def to_iso(when: datetime | None, precision: str = "seconds") -> str | None:
    """A moment as JSON documents and log lines have it: UTC, with a Z."""
    return None if when is None else when.isoformat(timespec=precision).replace("+00:00", "Z")
