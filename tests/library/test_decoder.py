"""The decoder confines itself."""

import subprocess
import sys


def run(program):
    """Run it in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30)


def test_memory_is_limited():
    """What goes beyond the allowance is a MemoryError, what is within it is not."""
    program = """
import os
from adaptd.library.preprocessing import Limits
from adaptd.library.decoder import _confine
limits = Limits(max_file_bytes=1, max_pixels=1)
answers = _confine(limits)
bytearray(limits.memory_bytes // 2)
try:
    bytearray(limits.memory_bytes * 3 // 2)
except MemoryError:
    os.write(answers, b"refused")
print("not to be seen")
"""
    assert run(program).stdout == "refused"


def test_torch_is_not_needed():
    """Neither decoding nor listing loads torch or the store's library."""
    program = """
import sys
import adaptd.library.decoder, adaptd.library.draft, adaptd.library.cache, adaptd.library.folders
print([name for name in ("torch", "sqlalchemy", "matplotlib") if name in sys.modules])
"""
    assert run(program).stdout.strip() == "[]"


def test_it_ends_with_its_parent(tmp_path):
    """When standard input ends, so does the process, in order."""
    order = '{"preprocessing": {"image_size": 8}, "limits": {}, "pixels": "/dev/null"}\n'
    done = subprocess.run(
        [sys.executable, "-m", "adaptd.library.decoder"],
        input=order.encode(),
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (0, b'{"ready": true}\n')
