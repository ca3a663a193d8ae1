"""A tensor's numbers in a large JSON text, cut out and read piece by piece: Python's parser lets nobody else work meanwhile.

What the numbers must be is said in `protocol`, which also reads everything else of the text.
"""

import json
import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 16
"""Bytes parsed at once: a millisecond or two."""
STEP = 1 << 20
"""Bytes looked through at once."""
MARK = -1
"""Stands in the text in place of the numbers."""

_DATA = re.compile(rb'(?<!\\)"data"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_NUMBERS = re.compile(rb"[\[\]0-9, \t\r\n]*")
_BETWEEN = b", \t\r\n"


def cut_numbers(text: bytes) -> tuple[bytes, bytes | None]:
    """The text with a mark in place of the first list called `data`, and that list; None where there is no such list."""
    found = _DATA.search(text)
    if found is None:
        return text, None
    start = end = found.end()
    while (stop := _match_end(text, end)) > end:
        end = stop
    numbers = text[start:end].rstrip(_BETWEEN)
    return b"%s%d%s" % (text[:start], MARK, text[start + len(numbers) :]), numbers


def _match_end(text: bytes, start: int) -> int:
    found = _NUMBERS.match(text, start, start + STEP)
    return start if found is None else found.end()


def parse_numbers(text: bytes, shape: Sequence[int]) -> NDArray[np.uint8]:
    """A list of integers from 0 to 255, flat or nested as `shape`; ValueError for anything else."""
    if text.count(b",") != math.prod(shape) - 1:
        raise ValueError("another count of numbers")
    if text.translate(None, b"0123456789 \t\r\n") not in {_outline([math.prod(shape)]), _outline(shape)}:
        raise ValueError("another nesting")
    plain = text.translate(None, b"[]")
    values = bytearray()
    start = 0
    while start < len(plain):
        end = plain.find(b",", start + PIECE)
        end = len(plain) if end < 0 else end
        values += bytes(json.loads(b"[%s]" % plain[start:end]))
        start = end + 1
    return np.frombuffer(values, np.uint8).reshape(shape)


def _outline(shape: Sequence[int]) -> bytes:
    """A nested list without its numbers."""
    text = b"[%s]" % (b"," * (shape[-1] - 1))
    for count in reversed(shape[:-1]):
        text = b"[%s]" % b",".join([text] * count)
    return text
