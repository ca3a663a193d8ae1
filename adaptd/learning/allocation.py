"""How a process that learns gets the memory of its tensors."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of malloc.h."""

KEPT, USUAL = 1 << 30, 1 << 22
"""Bytes: pieces of up to so many stay with the process when they are freed, and so many free ones in all."""


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Use freed memory again instead of giving it back to the kernel; nothing where the C library cannot be told so.

    Every step frees large tensors and asks for as many again. glibc unmaps them, and each page of a new one is a fault that the
    kernel answers with zeros: a quarter of a step's time above a cut at 224 pixels, a sixth on digits. Not for work that keeps
    something small of every batch: that lies between the large pieces, which then fit nowhere.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        yield
        return
    _set_limits(library, KEPT)
    try:
        yield
    finally:
        _set_limits(library, USUAL)
        library.malloc_trim(0)


def _set_limits(library: ctypes.CDLL, size: int) -> None:
    for name in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
        library.mallopt(name, size)
