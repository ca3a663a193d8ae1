"""Memory that a process keeps."""

import platform
import resource

import pytest
import torch

from adaptd.learning.allocation import keep_freed_memory

FLOATS, PAGE = 12_000_000, 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries cannot be told")
def test_freed_memory_is_used_again():
    """A large tensor that follows one of its size costs no page faults; glibc would map each of its pages anew."""
    keep_freed_memory()
    faults = []
    for _ in range(16):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(FLOATS)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert min(faults[8:]) < 4 * FLOATS / PAGE / 10
