"""Episodes after a rollback and after forgetting: what is replayed, what R's later rows know, and coming back."""

import json

import pytest


def matrix(shop) -> dict:
    """R and its metrics."""
    return json.loads(shop.does("matrix", "--json").stdout)


def test_a_rollback_names_what_undone_episodes_remember(adapted_shop):
    """And the command that lets it go; then nothing of it is left, and R is what it was."""
    shop = adapted_shop
    before = matrix(shop)
    said = shop.does("rollback").stderr
    assert "what is remembered of night comes from an undone episode: `adaptd forget night` lets it go" in said
    shop.does("forget", "night", "--yes")
    assert (shop.rows("SELECT count(*) FROM memories"), shop.leftovers()) == ([(0,)], [])
    assert matrix(shop)["R"] == before["R"]
    assert "night (forgotten)" in shop.does("matrix").stdout
    shop.does("fsck")


@pytest.mark.long
def test_forgotten_and_learned_again(adapted_shop, paint, night, tmp_path):
    """The row of the next episode is empty there, the gate does not ask, ACC goes on; and it may come again."""
    shop = adapted_shop
    before = matrix(shop)
    assert "night is forgotten" in shop.does("rollback", "--forget").stdout
    assert shop.status()["queue"][0]["reason"].startswith("forgotten by")
    assert "is skipped: forgotten by" in shop.does("explain", "night").stdout
    dusk = paint(tmp_path / "dusk", 10, seed=5, shift=15, flat=True)
    shop.does("adapt", dusk)
    assert "night" not in json.dumps(json.loads(shop.rows("SELECT gate_figures FROM versions WHERE version = 4")[0][0]))
    after = matrix(shop)
    assert after["domains"] == ["source", "night", "dusk"]
    assert [row[:2] for row in after["R"][:2]] == before["R"]
    assert (after["R"][2][1], after["forgotten"]) == (None, ["night"])
    source, _, newest = after["R"][2]
    assert after["metrics"]["acc"] == (source + newest) / 2
    shop.does("fsck")
    shop.does("adapt", night)
    again = matrix(shop)
    assert (again["forgotten"], again["R"][2][1]) == ([], None)
    assert all(again["R"][3])
    shop.does("fsck")
    assert shop.leftovers() == []
