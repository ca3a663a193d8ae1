"""A source model that learnt nothing: told everywhere, not promoted, and three ways out of it."""

import json

import numpy as np
import pytest
from PIL import Image

from adaptd.observe.doctor import check_promoted
from adaptd.store import Store

WEAK = {"ADAPTD_SOURCE__LEARNING_RATE": "1e-9"}


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Three classes that are all the same noise, and as much of it as a domain."""
    folder, draw = tmp_path_factory.mktemp("noise"), np.random.default_rng(0)
    for number in range(60):
        path = folder / "photos" / "abc"[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(path)
    return folder / "photos"


def test_a_weak_source_is_told_and_got_out_of(empty_shop, noise, source, night, start, drop):
    """Drops wait while status and the doctor's check say why; the same command with a better source, and they are adapted to."""
    run = empty_shop.run("source", "import", noise, "--json", env=WEAK)
    assert run.returncode == 1
    document = json.loads(run.stdout)
    assert document["state"] == "rejected"
    assert "held-out images" in document["gate"]["reasons"][0]
    assert "--weights" in document["gate"]["reasons"][-1]
    warnings = " ".join(empty_shop.status()["daemon"]["warnings"])
    assert "nothing is promoted, and drops wait" in warnings
    assert "adaptd promote 1 --force" in warnings
    with Store(empty_shop.state / "adaptd.db") as store, store.reading() as tx:
        assert "nothing is promoted" in check_promoted(tx).fact
    assert "no version is promoted to adapt from" in empty_shop.refuses("adapt", night)
    assert "To overrule the gate" in empty_shop.refuses("promote", "1")

    drop(night, empty_shop.root / "inbox" / "night")
    drained = start(empty_shop, "--drain")
    assert (drained.end(), "no version is promoted to adapt from, and drops wait: night" in drained.log.read_text()) == (1, True)
    assert empty_shop.rows("SELECT name, state FROM domains WHERE name = 'night'") == [("night", "settled")]
    assert empty_shop.rows("SELECT count(*) FROM episodes") == [(1,)]

    empty_shop.does("source", "import", source)
    assert empty_shop.rows("SELECT version, state FROM versions") == [(1, "promoted")]
    assert empty_shop.rows("SELECT number, state FROM episodes ORDER BY id") == [(None, "failed"), (0, "done")]
    assert start(empty_shop, "--drain").end() == 0
    assert empty_shop.rows("SELECT state FROM domains WHERE name = 'night'") == [("done",)]
    assert "imported already" in empty_shop.refuses("source", "import", source)
    empty_shop.does("fsck")


def test_a_weak_source_can_be_forced(empty_shop, noise):
    """By `promote` afterwards; who runs `source import --force` need not."""
    forced = empty_shop.copy(empty_shop.root.parent / "forced")
    forced.does("source", "import", noise, "--force", env=WEAK)
    assert list(forced.published()) == [1]
    assert empty_shop.run("source", "import", noise, env=WEAK).returncode == 1
    empty_shop.does("promote", "1", "--force", "--why", "for a try")
    assert list(empty_shop.published()) == [1]
    assert "rejected" not in " ".join(empty_shop.status()["daemon"]["warnings"])
