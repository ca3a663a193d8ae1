"""Workers that die, by others' hand or their own: the daemon lives on, the work goes on or has failed with its reason."""

import os
import resource
import signal

import pytest

from .conftest import LONG, wait_until

MEMORY = 400_000_000
"""Too little address space to import torch."""


def test_a_killed_worker_goes_on_from_its_checkpoint(shop, start, drop, pictures, reference):
    """Killed as by the kernel when memory runs out: the daemon stays, the episode ends with the same weights."""
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, env=LONG)
    os.kill(daemon.training(20), signal.SIGKILL)
    daemon.hear("killed by SIGKILL, as the kernel does when memory runs out", outcome="crashed")
    daemon.until(camera="done")
    assert shop.status()["daemon"]["pid"] == daemon.pid
    assert daemon.stop() == 0
    assert reference(shop) == (2, [("worker-died",)])
    assert shop.leftovers() == ["domains", "domains/2", "domains/2/1", *drop_files(shop)]


def drop_files(shop) -> list[str]:
    """What a drop brought stays where it was claimed."""
    return sorted(str(path.relative_to(shop.state)) for path in (shop.state / "domains/2/1").rglob("*"))


@pytest.mark.long
def test_poison_has_failed(shop, start, drop, pictures):
    """Three deaths at one place, the last by its own fault: failed with the reason; the next domain goes on; retry works."""
    inbox = shop.root / "inbox"
    drop(pictures(0), inbox / "poison")
    daemon = start(shop, env={"ADAPTD_TRAINING__CHECKPOINT_SECONDS": "3600", "ADAPTD_TRAINING__EPOCHS": "2"})
    for death in (1, 2):
        os.kill(daemon.hear("episode begins", death, domain="poison")["pid"], signal.SIGKILL)
    drop(pictures(1), inbox / "next")
    resource.prlimit(daemon.hear("episode begins", 3, domain="poison")["pid"], resource.RLIMIT_AS, (MEMORY, MEMORY))
    daemon.until(poison="failed", next="done")
    (reason,) = [item["reason"] for item in shop.status()["queue"] if item["domain"] == "poison"]
    assert "its worker died 3 times at the same place" in reason
    assert "adaptd retry poison" in reason
    assert any("domain poison failed" in warning for warning in shop.status()["daemon"]["warnings"])
    shop.does("retry", "poison")
    daemon.until(poison="done")
    assert daemon.stop() == 0
    assert shop.rows("SELECT state, number FROM episodes ORDER BY id") == [
        ("done", 0),
        ("failed", None),
        ("done", 1),
        ("done", 2),
    ]


def test_an_import_that_kills_its_worker_has_failed(shop, start, drop, pictures):
    """Three deaths while importing: failed, with the images kept; retry counts anew."""
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, env={"ADAPTD_INTAKE__TRIGGER": "manual"})
    for death in (1, 2, 3):
        os.kill(daemon.hear("import begins", death)["pid"], signal.SIGKILL)
    daemon.until(camera="failed")
    shop.does("retry", "camera")
    os.kill(daemon.hear("import begins", 4)["pid"], signal.SIGKILL)
    daemon.until(camera="queued")
    assert shop.rows("SELECT images, quarantined FROM domains WHERE name = 'camera'") == [(39, 0)]
    assert wait_until(lambda: not daemon.worker("import"))
