"""Row 8: the wall clock jumps while an episode runs. Leases, order and results do not care."""

from pathlib import Path

import pytest

from tests.process.conftest import LONG, wait_until

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
JUMPS = ("+400d", "-400d", "-1h")


@pytest.fixture
def clock(tmp_path) -> tuple[Path, dict[str, str]]:
    """A file that sets the clock, as an offset from the real one, of processes with this environment."""
    if not LIBRARY.exists():
        pytest.skip("needs libfaketime: apt-get install faketime")
    file = tmp_path / "clock"
    file.write_text("+0")
    faked = {"LD_PRELOAD": str(LIBRARY), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}
    return file, faked | {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1", "FAKETIME_DONT_RESET": "1"}


def test_the_clock_jumps(shop, start, drop, pictures, reference, clock):
    """By 400 days to and fro and by an hour back: one lease, the drops in their order, the weights of an undisturbed run."""
    file, env = clock
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, env=LONG | env)
    for number, jump in enumerate(JUMPS):
        daemon.training(5 + 20 * number)
        file.write_text(jump)
        drop(pictures(1 + number), shop.root / "inbox" / f"later-{number}")
        wait_until(lambda number=number: f"later-{number}" in daemon.domains(), f"the drop after {jump}")
    assert shop.rows("SELECT max(lease_fence), sum(attempts) FROM episodes WHERE state = 'training'") == [(1, 1)]
    daemon.until(camera="done", **{f"later-{number}": "done" for number in range(len(JUMPS))})
    assert daemon.stop() == 0
    assert reference(shop) == (1, [])
    numbered = (
        "SELECT d.name, e.lease_fence FROM episodes e JOIN domains d ON d.id = e.domain_id WHERE e.number > 0 ORDER BY e.number"
    )
    assert shop.rows(numbered) == [("camera", 1), ("later-0", 1), ("later-1", 1), ("later-2", 1)]
    positions = shop.rows("SELECT name FROM domains WHERE position > 0 ORDER BY position")
    assert positions == [("camera",), ("later-0",), ("later-1",), ("later-2",)]
