"""A drop that is no new domain: it is said, and by the settings it is skipped, or joins the domain that it is known as."""

import json

import pytest
from PIL import Image

from tests.conftest import Shop
from tests.episodes.library import Library

from .conftest import wait_until

PER_CLASS = 40
SHORT = {"ADAPTD_TRAINING__EPOCHS": "1"}
MERGE = {"ADAPTD_INTAKE__KNOWN_DROPS": "merge", **SHORT}
SKIP = {"ADAPTD_INTAKE__KNOWN_DROPS": "skip", **SHORT}


@pytest.fixture(scope="module")
def photos(tmp_path_factory, paint):
    """A source that is large enough to compare with."""
    return paint(tmp_path_factory.mktemp("photos"), PER_CLASS, seed=0)


@pytest.fixture(scope="module")
def copied(tmp_path_factory, photos):
    """The same pictures in another format, without their classes: no file has the bytes of a known one."""
    folder = tmp_path_factory.mktemp("copied")
    for path in photos.rglob("*.png"):
        Image.open(path).save(folder / f"{path.parent.name}-{path.stem}.bmp")
    return folder


@pytest.fixture(scope="module")
def _large_shop(_new_shop, tmp_path_factory, photos):
    shop = _new_shop.copy(tmp_path_factory.mktemp("large") / "shop")
    shop.does("source", "import", photos)
    return shop


@pytest.fixture
def large_shop(_large_shop, tmp_path) -> Shop:
    """A project that learned from that source."""
    return _large_shop.copy(tmp_path / "shop")


def told(shop, domain: str) -> dict:
    """What the newest episode of a domain says."""
    return json.loads(shop.does("explain", domain, "--json").stdout)["episodes"][-1]["novelty"]


def test_a_copy_of_the_source_is_said_to_be_known(large_shop, monkeypatch, copied, paint, tmp_path):
    """And adapted to as ever. Interrupted, it is not asked again; another domain is new."""
    library = Library(large_shop, monkeypatch, copied, name="copy", **SHORT)

    class Killed(BaseException):
        pass

    def kill(report) -> None:
        if report.step == 2:
            raise Killed

    with pytest.raises(Killed):
        library.run(kill)
    assert told(large_shop, "copy")["verdict"] == "known"
    with library.store.reading() as tx:
        library.episode = tx.episodes.get(library.episode.id)
    finished = library.run()
    library.store.close()
    found = finished.report["novelty"]
    assert (found["verdict"], found["known_as"], found["images"]) == ("known", "source", 3 * PER_CLASS)
    assert found == told(large_shop, "copy")
    assert large_shop.rows("SELECT count(*) FROM events WHERE kind = 'drop-compared'") == [(1,)]
    (queued,) = large_shop.status()["queue"]
    assert (queued["state"], "copy is no new domain" in queued["reason"]) == ("done", True)
    assert "source: AUC" in large_shop.does("explain", "copy").stdout

    large_shop.does("adapt", paint(tmp_path / "dark", 20, seed=1, shift=70, flat=True), env=SHORT)
    found = told(large_shop, "dark")
    assert (found["verdict"], {each["domain"] for each in found["distances"]}) == ("new", {"source", "copy"})


@pytest.mark.long
def test_known_drops_are_skipped_where_that_is_set(large_shop, start, drop, copied, paint, tmp_path):
    """Nothing is learned from a copy before a person tries it again; what is too little to tell waits for more."""
    shop = large_shop
    few = paint(tmp_path / "few", 10, seed=2, flat=True)
    drop(copied, shop.root / "inbox" / "copy")
    drop(few, shop.root / "inbox" / "few")
    daemon = start(shop, env=SKIP)
    daemon.until(copy="skipped", few="settled")
    wait_until(lambda: shop.rows("SELECT 1 FROM events WHERE kind = 'drop-waits'"), "waiting for more")
    reasons = {item["domain"]: item["reason"] for item in shop.status()["queue"]}
    assert "copy is no new domain" in reasons["copy"]
    assert "`adaptd retry copy`" in reasons["copy"]
    assert "too few images to tell whether it is new" in reasons["few"]
    assert set(shop.published()) == {1}
    shop.does("fsck")
    shop.does("retry", "copy")
    daemon.until(copy="done")
    assert daemon.stop() == 0
    assert told(shop, "copy")["verdict"] == "known"
    shop.does("fsck")


@pytest.mark.long
def test_known_drops_join_their_domain_where_that_is_set(large_shop, start, drop, copied, paint, tmp_path):
    """Another folder of a known domain is its next delivery, with its quarantined file; the source is not adapted to."""
    shop, inbox = large_shop, large_shop.root / "inbox"
    shop.does("adapt", paint(tmp_path / "night", PER_CLASS, seed=1, shift=70, flat=True), env=SHORT)
    more = paint(tmp_path / "more", PER_CLASS, seed=2, shift=70, flat=True)
    (more / "notes.txt").write_text("no image")
    drop(more, inbox / "more")
    drop(copied, inbox / "copy")
    daemon = start(shop, env=MERGE)
    daemon.until(more="skipped", copy="skipped")
    daemon.hear("episode 2 gave")
    assert daemon.stop() == 0
    story = json.loads(shop.does("explain", "night", "--json").stdout)
    assert [(each["number"], each["delivery"], each["accepted"]) for each in story["drops"]] == [(1, 2, 120)]
    assert [each["delivery"] for each in story["episodes"]] == [1, 2]
    assert (story["images"], story["quarantined"][0]["names"]) == (240, ["notes.txt"])
    assert told(shop, "more")["merged_into"] == "night"
    reasons = {item["domain"]: (item["images"], item["reason"]) for item in shop.status()["queue"]}
    assert reasons["more"][0] == 0
    assert "its images joined night" in reasons["more"][1]
    assert "drop-merged" in shop.does("explain", "more").stdout
    assert reasons["copy"][0] == 120
    assert "nothing is learned from it" in reasons["copy"][1]
    held_out = "SELECT count(*) FROM images WHERE split = 'held-out' AND domain_id = 2 GROUP BY delivery"
    assert shop.rows(held_out) == [(18,), (18,)]
    assert shop.does("fsck", "--deep").stdout == "clean\n"
