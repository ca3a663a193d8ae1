"""An inbox, a clock that a test moves, files to drop, and a second filesystem."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adaptd.intake.scanner import Drop, Scan, Scanner
from adaptd.intake.settling import DropState, Settling

Plant = Callable[..., Path]


def settled(scan: Scan) -> tuple[Drop, ...]:
    """The drops that can be claimed."""
    return tuple(drop for drop in scan.drops if drop.state is DropState.SETTLED)


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time it is."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that a test moves."""
    return Clock()


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """An empty inbox."""
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


@pytest.fixture
def scanner(inbox: Path, clock: Clock) -> Scanner:
    """Drops settle after 5 s, temporary files are given up after 100 s, everything is looked at every 60 s."""
    return Scanner(inbox, Settling(5, 100), 60, clock)


@pytest.fixture
def plant() -> Plant:
    """Make files below a folder, each holding its own name."""

    def plant(folder: Path, *names: str) -> Path:
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.fsencode(name))
        return folder

    return plant


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on another filesystem than tmp_path."""
    if not os.access("/dev/shm", os.W_OK) or Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm on a filesystem of its own")
    folder = Path(tempfile.mkdtemp(prefix="adaptd-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)
