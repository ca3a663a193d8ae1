"""`adaptd source import --again`: what is said, what changes at once, what comes to nothing, and kills in between."""

import json
import signal
from pathlib import Path

import pytest

from adaptd.care.fsck import check_project
from adaptd.project.layers import load_project
from tests.tracing import run_with_fault

SOURCE = "SELECT count(*) FROM images i JOIN domains d ON d.id = i.domain_id WHERE d.name = 'source'"


@pytest.fixture
def more(paint, tmp_path) -> Path:
    """Other labelled images of the same classes."""
    return paint(tmp_path / "more", 10, seed=5)


def matrix(shop) -> dict:
    """R and its metrics."""
    return json.loads(shop.does("matrix", "--json").stdout)


def require_whole(shop) -> None:
    """Store, files and versions agree, and nothing is left over."""
    assert check_project(load_project(shop.root, environ={})) == ()
    assert shop.leftovers() == []


def test_before_the_first_domain_it_is_extended_without_asking(shop, source, more):
    """Nothing is lost by it; without --again the command says how."""
    assert "--again` replaces it" in shop.refuses("source", "import", more)
    said = shop.does("source", "import", source, more, "--again").stderr
    assert "`adaptd rollback` goes back to it" in said
    assert shop.rows(SOURCE) == [(90,)]
    assert (matrix(shop)["domains"], matrix(shop)["episodes"], shop.status()["served"]["version"]) == (["source"], [1], 2)
    assert "It begins a new lineage" in shop.does("versions").stdout
    require_whole(shop)
    shop.does("rollback")
    assert shop.status()["served"]["version"] == 3


def test_after_domains_were_learned(adapted_shop, more, paint, night, tmp_path):
    """It is said and asked; then they are forgotten, R begins anew, old versions stay; and what comes next learns as ever."""
    shop = adapted_shop
    before = matrix(shop)
    asked = shop.run("source", "import", more, "--again")
    assert asked.returncode == 1
    for said in ("1 domain will be forgotten (night): ", "R begins anew with row 2", "give --yes to replace the source"):
        assert said in asked.stderr
    refused = shop.refuses("source", "import", paint(tmp_path / "two", 10, seed=6, classes="ab"), "--again", "--yes", code=5)
    assert "needs the classes a, b, c and 16 px" in refused
    assert matrix(shop) == before
    shop.does("source", "import", more, "--again", "--yes")
    require_whole(shop)
    after = matrix(shop)
    assert (after["domains"], after["episodes"]) == (["source"], [2])
    assert shop.rows("SELECT version, parent FROM versions") == [(1, None), (2, 1), (3, 2)]
    assert shop.rows("SELECT count(*) FROM memories") == [(0,)]
    assert [(item["domain"], item["state"]) for item in shop.status()["queue"]] == [("night", "skipped")]
    assert "forgotten for a new source, version 3" in shop.status()["queue"][0]["reason"]
    shop.does("adapt", night)
    again = matrix(shop)
    assert (again["domains"], again["episodes"], again["kind"][0]) == (["source", "night"], [2, 3], ["measured", "measured"])
    require_whole(shop)


def test_a_source_that_teaches_nothing_changes_nothing(adapted_shop, more):
    """A model near chance is not promoted, and everything is as before, also for the next try."""
    shop = adapted_shop
    before, served = matrix(shop), shop.status()["served"]
    useless = {"ADAPTD_SOURCE__LEARNING_RATE": "1e-9"}
    said = shop.refuses("source", "import", more, "--again", "--yes", "--epochs", "1", env=useless)
    assert "the new source changes nothing: " in said
    assert (matrix(shop), shop.status()["served"], shop.rows(SOURCE)) == (before, served, [(60,)])
    shop.does("source", "import", more, "--again", "--yes")
    assert (shop.rows(SOURCE), shop.status()["served"]["version"]) == ([(30,)], 3)
    require_whole(shop)


@pytest.mark.parametrize("nth", [25, *(pytest.param(nth, marks=pytest.mark.long) for nth in (4, 12, 40))])
def test_killed_in_between(adapted_shop, more, nth):
    """As it makes something last: the old source or the new one is there, whole, and the same command ends as if nothing was."""
    shop = adapted_shop
    words = ("source", "import", more, "--again", "--yes")
    process = shop.start(*words, stopped=True)
    assert run_with_fault(process, "fsync,fdatasync", f"signal=SIGKILL:when={nth}", Path("/dev/null")) == -signal.SIGKILL
    served = shop.status()["served"]["version"]
    assert shop.rows(SOURCE) == [(60 if served == 2 else 30,)]
    assert {finding.invariant for finding in check_project(load_project(shop.root, environ={}))} <= {"I7"}
    if served == 2:
        shop.does(*words)
    assert (shop.rows(SOURCE), shop.status()["served"]["version"]) == ([(30,)], 3)
    shop.run("promote", 99)  # the next command finishes what was begun
    assert check_project(load_project(shop.root, environ={})) == ()
