"""Row 8: the wall clock of adaptd's processes jumps while an episode runs; files keep the kernel's times."""

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.conftest import LONG, wait_until

pytestmark = pytest.mark.long

HOUR, DAY = 3600, 86400
JUMPS = (400 * DAY, -400 * DAY, -HOUR)


@pytest.fixture
def clock(tmp_path) -> tuple[Callable[[int], None], dict[str, str]]:
    """Sets the wall clock so many seconds off the true one, for processes with this environment."""
    if not shutil.which("gcc"):
        pytest.skip("needs a C compiler: apt-get install gcc libc6-dev")
    library, offset = tmp_path / "clock.so", tmp_path / "offset"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("clock.c")], check=True)

    def turn(seconds: int) -> None:
        with offset.open("r+b" if offset.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))

    turn(0)
    return turn, {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}


def test_the_clock_jumps(shop, start, drop, pictures, reference, clock):
    """By 400 days to and fro and by an hour back: one lease, the drops in their order, the weights of an undisturbed run."""
    turn, env = clock
    inbox, later = shop.root / "inbox", [f"later-{number}" for number in range(len(JUMPS))]
    drop(pictures(0), inbox / "camera")
    daemon = start(shop, env=LONG | env)
    for number, jump in enumerate(JUMPS):
        daemon.training(5 + 10 * number)
        turn(jump)
        drop(pictures(1 + number), inbox / later[number])
        daemon.hear(f"{later[number]}: 39 files came")
    daemon.until(camera="done")
    wait_until(lambda: shop.rows("SELECT count(*) FROM drops WHERE delivery IS NOT NULL") == [(1 + len(JUMPS),)], "the imports")
    assert daemon.stop() == 0
    assert reference(shop) == (1, [])
    assert shop.rows("SELECT lease_fence FROM episodes WHERE number = 1") == [(1,)]
    queue = "SELECT d.name FROM episodes e JOIN domains d ON d.id = e.domain_id WHERE d.name != 'source' ORDER BY e.id"
    assert shop.rows(queue) == [(name,) for name in ("camera", *later)]
    assert shop.run("fsck", "--deep").returncode == 0
    times = [line["time"] for line in daemon.lines()]
    assert max(times)[:4] != min(times)[:4], "the clock did not jump"
