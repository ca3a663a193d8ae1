"""How a process that learns gets the memory of its tensors."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of malloc.h."""

MOST = 1 << 30
"""Bytes: pieces of up to so many, and as many free ones in all, stay with the process."""


def keep_freed_memory() -> None:
    """Use freed memory again instead of giving it back to the kernel; nothing where the C library cannot be told so.

    Every step frees large tensors and asks for as many again. glibc unmaps them, and each page of a new one is a fault that the
    kernel answers with zeros: a quarter of a step's time above a cut at 224 pixels, a sixth on digits.
    """
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is not None:
        tell(M_MMAP_THRESHOLD, MOST)
        tell(M_TRIM_THRESHOLD, MOST)
