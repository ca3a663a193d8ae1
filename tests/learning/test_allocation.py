"""Memory that a process keeps."""

import platform
import resource

import pytest
import torch

from adaptd.learning.allocation import keeping_freed_memory

FLOATS, PAGE = 12_000_000, 4096


def count_faults():
    """Of making a large tensor, which is freed at once."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(FLOATS)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries cannot be told")
def test_freed_memory_is_used_again():
    """A large tensor that follows one of its size costs no page faults; glibc would map each of its pages anew."""
    few = 4 * FLOATS / PAGE / 10
    with keeping_freed_memory():
        assert min(count_faults() for _ in range(16)) < few
    assert min(count_faults() for _ in range(4)) > few, "afterwards it goes back"
