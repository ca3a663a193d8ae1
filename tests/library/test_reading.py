"""Only regular files are read, and nothing makes reading hang."""

import os
import socket

import pytest

from adaptd.errors import ImageRejected
from adaptd.library.reading import read_untrusted


def reason_of(path, max_bytes=100):
    """Why this path is refused."""
    with pytest.raises(ImageRejected) as rejected:
        read_untrusted(path, max_bytes)
    return rejected.value.reason


def test_a_regular_file_is_read(tmp_path):
    """Content of up to the cap comes back whole."""
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert read_untrusted(tmp_path / "file", 100) == b"x" * 100


def test_names_of_any_bytes_are_read(tmp_path):
    """Newlines, other scripts and bytes that are no text do not matter in a name."""
    for name in (b"new\nline", "снег 雪".encode(), b"\xff\xfe"):
        path = tmp_path / os.fsdecode(name)
        path.write_bytes(b"content")
        assert read_untrusted(path, 100) == b"content"


def test_sizes_outside_the_limits(tmp_path):
    """Nothing and too much are refused by their own reasons."""
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_bytes(b"x" * 101)
    assert reason_of(tmp_path / "empty") == "empty"
    assert reason_of(tmp_path / "large") == "too-large"


def test_only_files_are_files(tmp_path):
    """Folders, FIFOs, sockets and links are refused at once, also a link to a good file and a loop of links."""
    (tmp_path / "good").write_bytes(b"x")
    (tmp_path / "link").symlink_to("good")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    odd = [tmp_path / name for name in ("link", "loop", "fifo", "socket")]
    for path in [*odd, tmp_path, tmp_path / "good" / "below"]:
        assert reason_of(path) == "not-a-file", path


def test_devices_are_not_read(tmp_path):
    """An endless device gives no bytes."""
    from pathlib import Path

    assert reason_of(Path("/dev/zero")) == "not-a-file"


def test_what_cannot_be_read_is_said(tmp_path):
    """A vanished file and an impossible name are unreadable, not errors."""
    assert reason_of(tmp_path / "gone") == "unreadable"
    assert reason_of(tmp_path / ("n" * 300)) == "unreadable"


def test_trouble_of_the_machine_is_not_the_files_fault(tmp_path):
    """Without free descriptors nobody's picture is refused."""
    import resource

    (tmp_path / "file").write_bytes(b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            read_untrusted(tmp_path / "file", 100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
