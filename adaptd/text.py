"""Text from outside as people may see it: odd bytes, hidden characters, moments. Decides nothing about where it is shown."""

import json
import os
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories of characters that are not seen, and change what is: controls, directions, line breaks, unassigned."""

_ODD = re.compile(r"[^ -~]")
_ODD_IN_JSON = re.compile(r"[^ -~\n]")


def is_hidden(character: str) -> bool:
    """Whether a character would break lines, turn the direction, or not be seen at all."""
    return unicodedata.category(character) in HIDDEN


def escape_hidden(text: str) -> str:
    """Text from outside as a terminal may see it: line breaks, control characters and marks of direction as escapes."""
    return _ODD.sub(lambda odd: _escape(odd[0]) if is_hidden(odd[0]) else odd[0], text)


def escape_json(text: str) -> str:
    """A JSON text with the hidden characters of its strings as JSON's own escapes; its line breaks stay."""
    return _ODD_IN_JSON.sub(lambda odd: json.dumps(odd[0])[1:-1] if is_hidden(odd[0]) else odd[0], text)


def make_visible(document: Any) -> Any:
    """A document of lists and mappings with every text in it as a terminal may see it."""
    if isinstance(document, str):
        return escape_hidden(document)
    if isinstance(document, Mapping):
        return {make_visible(key): make_visible(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [make_visible(value) for value in document]
    return document


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


def tell_count(number: int, noun: str) -> str:
    """A number of things as people say it: 1 image, 1,200 images."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tell_moment(iso: str) -> str:
    """A moment of a JSON document for the person here: local, to the minute."""
    return f"{datetime.fromisoformat(iso).astimezone():%Y-%m-%d %H:%M}"


def tell_points(share: float) -> str:
    """A difference of two shares as people say it: 1 point, 3.5 points. Percent would be of something."""
    number = f"{100 * share:.1f}".removesuffix(".0")
    return f"{number} point{'' if number.lstrip('-') == '1' else 's'}"


def printable(path: Path) -> str:
    """A path as text that every database and terminal takes: bytes that are not UTF-8 are written as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def to_iso(when: datetime | None, precision: str = "seconds") -> str | None:
    """A moment as JSON documents and log lines have it: UTC, with a Z."""
    return None if when is None else when.isoformat(timespec=precision).replace("+00:00", "Z")
