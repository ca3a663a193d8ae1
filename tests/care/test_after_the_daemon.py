"""What the real daemon leaves is clean, and what it quarantined can be given back to it, deleted and explained."""

import json
import shutil

import pytest

QUICK = {"ADAPTD_INTAKE__SETTLE_SECONDS": "0.2", "ADAPTD_METRICS__PORT": "0", "ADAPTD_TRAINING__EPOCHS": "2"}


@pytest.fixture
def adapted(shop, night):
    """The night came through the inbox, with an odd name and a file that was left half-written."""
    folder = shop.root / "inbox" / "night"
    shutil.copytree(night, folder)
    (folder / "sub").mkdir()
    (folder / "sub" / "odd\udcff[red].txt").write_bytes(b"no image")
    (folder / "_READY").touch()
    shop.does("run", "--drain", env=QUICK)
    return shop


def test_fsck_is_clean_and_everything_can_be_undone(adapted):
    """Clean after the run; after giving everything back and running again; and after deleting originals and quarantine."""
    shop = adapted
    assert shop.does("fsck", "--deep").stdout == "clean\n"
    listed = json.loads(shop.does("quarantine", "list", "night", "--json").stdout)["files"]
    assert sorted(file["name"] for file in listed) == ["broken.jpg", "sub/odd\\xff[red].txt"]
    story = json.loads(shop.does("explain", "night", "--json").stdout)
    assert [(drop["delivery"], drop["accepted"], drop["duplicates"]) for drop in story["drops"]] == [(1, 72, 1)]
    assert [episode["state"] for episode in story["episodes"]] == ["done"]

    shop.does("quarantine", "restore", "--domain", "night")
    assert shop.does("fsck").stdout == "clean\n"
    (shop.root / "inbox" / "night" / "_READY").touch()
    shop.does("run", "--drain", env=QUICK)
    assert shop.does("fsck", "--deep").stdout == "clean\n"
    (night,) = shop.status()["queue"]
    assert (night["state"], "2 rejected" in night["reason"]) == ("done", True), "it was finished before"
    again = json.loads(shop.does("quarantine", "list", "night", "--json").stdout)["files"]
    assert [file["reason"] for file in again] == [file["reason"] for file in listed]

    shop.does("quarantine", "purge", "--domain", "night", "--yes")
    shop.does("gc", "--originals", "--yes")
    assert shop.does("fsck", "--deep").stdout == "clean\n"
    assert not (shop.state / "domains" / "2" / "1").exists()
    assert shop.does("run", "--drain", env=QUICK).returncode == 0
    assert shop.does("fsck").stdout == "clean\n"
