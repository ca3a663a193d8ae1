"""A drop that the model does not recognise: nothing is learned from it, and the person is told."""

import json


def test_a_drop_of_one_class_alone_is_refused(adapted_shop, start, paint, tmp_path):
    """The domain fails with the reason, R and the served version stay, and the next drop is learned from as ever."""
    shop = adapted_shop
    before = shop.published(), shop.rows("SELECT * FROM accuracies")
    paint(tmp_path / "ones", 40, seed=1, classes="a", flat=True)
    (tmp_path / "ones").rename(shop.root / "inbox" / "ones")
    daemon = start(shop)
    daemon.until(ones="failed")
    assert (shop.published(), shop.rows("SELECT * FROM accuracies")) == before
    told = shop.does("explain", "ones").stdout.replace("\n", " ")
    assert "one class alone" in told
    assert "of the images are taken for a" in told
    ((report, details),) = shop.rows(
        "SELECT e.report, v.details FROM episodes e JOIN events v ON v.episode_id = e.id WHERE v.kind = 'episode-failed'"
    )
    assert json.loads(report)["trust"] == json.loads(details)["trust"]
    paint(tmp_path / "good", 10, seed=2, shift=20, flat=True)
    (tmp_path / "good").rename(shop.root / "inbox" / "good")
    daemon.until(good="done")
    assert daemon.stop() == 0
    assert set(shop.published()) == {1, 2, 3}
    shop.does("fsck")
