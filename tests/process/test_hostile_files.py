"""A drop full of hostile files: each is accepted or quarantined with a reason, and the daemon stays small and alive."""

import os
from pathlib import Path

import pytest

from .conftest import MANUAL, StartDaemon
from .hostile import FILES, make_corpus

MEMORY = 120_000_000
"""What the supervisor may hold."""


def count_entries(folder) -> int:
    """Everything below that is no folder."""
    return sum(len(files) + sum(Path(root, name).is_symlink() for name in folders) for root, folders, files in os.walk(folder))


@pytest.mark.parametrize("mode", ["claim", "in-place"])
def test_five_hundred_hostile_files(shop, start: StartDaemon, mode):
    """Counts add up, every reason is said, files are where the store says, the supervisor's memory stays below its limit."""
    folder = shop.root / "inbox" / "hostile"
    assert make_corpus(folder) == FILES == count_entries(folder)
    daemon = start(shop, env=MANUAL | {"ADAPTD_INTAKE__MINIMUM_IMAGES": "1", "ADAPTD_INTAKE__MODE": mode})
    daemon.until(hostile="queued")
    assert daemon.memory() <= MEMORY
    assert daemon.stop() == 0
    ((files, accepted, duplicates),) = shop.rows("SELECT files, accepted, duplicates FROM drops")
    refused = shop.rows("SELECT name, reason, detail, path FROM quarantine")
    assert files == FILES
    assert accepted + duplicates + len(refused) == FILES
    assert accepted > 20
    assert all(reason and detail for _, reason, detail, _ in refused)
    assert len({reason for _, reason, _, _ in refused}) > 5, "the corpus is not hostile enough"
    assert len({path for *_, path in refused}) == len(refused)
    if mode == "claim":
        assert not folder.exists()
        assert all(os.path.lexists(shop.state / path) for *_, path in refused)
        assert count_entries(shop.state / "quarantine") == len(refused)
        assert count_entries(shop.state / "domains") == accepted + duplicates
    else:
        assert count_entries(folder) == FILES
