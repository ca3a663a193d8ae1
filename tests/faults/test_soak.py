"""Row 14: many small domains, one after the other. Memory and file descriptors stay where they were."""

import os
from pathlib import Path

import pytest

from tests.process.conftest import MANUAL

pytestmark = pytest.mark.long

DOMAINS, SETTLED = (int(os.environ.get("ADAPTD_DOMAINS", "2000")), 50) if os.environ.get("ADAPTD_FAULTS") else (8, 4)
GROWTH = 20_000_000


def memory(pid: int) -> int:
    """What a process holds now, in bytes."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024


def descriptors(pid: int) -> int:
    """Open files."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_many_small_domains(shop, start, drop, paint, tmp_path, figures):
    """Imported and queued, with pages and metrics on."""
    daemon = start(shop, env=MANUAL | {"ADAPTD_INTAKE__SETTLE_SECONDS": "0.1", "ADAPTD_INTAKE__MINIMUM_IMAGES": "3"})
    for number in range(DOMAINS):
        folder = paint(tmp_path / f"small-{number}", 1, seed=number, flat=True)
        drop(folder, shop.root / "inbox" / f"camera-{number}")
        daemon.until(**{f"camera-{number}": "queued"})
        if number == SETTLED:
            before, opened = memory(daemon.pid), descriptors(daemon.pid)
    grown, more = memory(daemon.pid) - before, descriptors(daemon.pid) - opened
    figures(domains=DOMAINS, grown_bytes=grown, more_descriptors=more)
    assert grown <= GROWTH
    assert more <= 2, "a worker that has just been started may have some"
    assert daemon.stop() == 0
