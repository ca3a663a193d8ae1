"""A drop without labels, through the command line: estimates with a range, and a candidate that only they speak against."""

import json

import jsonschema
import pytest

from adaptd.publishing.card import read_card
from tests.releases.test_versions import REPOSITORY, WRECK, versions

BLIND = {
    "ADAPTD_TRAINING__MAX_LOST_CLASSES": "1",
    "ADAPTD_GATE__MAX_SOURCE_LOSS": "1",
    "ADAPTD_GATE__MAX_NEGATIVE_FLIPS": "1",
    "ADAPTD_GATE__MIN_CLASS_SHARE": "0",
    "ADAPTD_GATE__ESTIMATES": "hold",
}
"""A collapse does not end the episode, and the gate lets every measured loss pass: estimates have the last word."""


@pytest.fixture(scope="module")
def fog(tmp_path_factory, paint):
    """A domain without a single label."""
    return paint(tmp_path_factory.mktemp("data") / "fog", 60, seed=8, shift=20, flat=True)


def test_an_estimate_is_shown_with_its_range(shop, fog):
    """In status, R, the table, the explanation and the card; the other estimators stand beside it in the store alone."""
    shop.does("adapt", fog)
    status = shop.status()
    jsonschema.validate(status, json.loads((REPOSITORY / "docs" / "schemas" / "status.json").read_text()))
    shown = status["served"]["accuracies"]["fog"]
    assert (shown["kind"], shown["held_out"], shown["n"]) == ("estimated", True, 27)
    assert 0 <= shown["low"] < shown["value"] <= shown["high"] <= 1
    assert (status["matrix"]["low"][-1][1], status["matrix"]["held_out"][-1][1]) == (shown["low"], True)
    interval = f"({100 * shown['low']:.0f}–{100 * shown['high']:.0f}"
    assert f"~{100 * shown['value']:.1f} {interval})" in shop.does("matrix").stdout
    for command in (["status"], ["explain", "fog"]):
        assert interval in " ".join(shop.does(*command).stdout.split())
    row = {entry.domain: entry for entry in read_card(shop.root / "models" / "shop" / "2").row}
    assert (row["fog"].estimator, row["fog"].held_out, row["fog"].low) == ("range", True, shown["low"])


def test_what_only_estimates_speak_against_is_for_a_person_to_decide(shop, fog):
    """The version is kept with the reason and both ways on; promoting it needs no force."""
    shop.does("adapt", fog, env=WRECK | BLIND)
    held = versions(shop)[-1]
    assert held["state"] == "rejected"
    assert len(held["gate"]["reasons"]) == 1
    for said in ("agreement with the check models", "`adaptd promote 2`", "`adaptd labels template fog`"):
        assert said in held["gate"]["reasons"][0]
    assert "`adaptd promote 2`" in shop.status()["daemon"]["warnings"][0]
    assert "version 2 is promoted" in shop.does("promote", 2, env=BLIND).stdout
    assert versions(shop)[-1]["forced_because"] is None
