"""A drop that the model does not recognise: nothing is learned from it, and the person is told."""


def test_a_drop_of_one_class_alone_is_refused(adapted_shop, start, paint, tmp_path):
    """The domain fails with the reason, R and the served version stay, and the next drop is learned from as ever."""
    shop = adapted_shop
    before = shop.published(), shop.rows("SELECT * FROM accuracies")
    paint(tmp_path / "ones", 40, seed=1, classes="a", flat=True)
    (tmp_path / "ones").rename(shop.root / "inbox" / "ones")
    daemon = start(shop)
    daemon.until(ones="failed")
    assert (shop.published(), shop.rows("SELECT * FROM accuracies")) == before
    assert "does not recognise these images" in shop.does("explain", "ones").stdout.replace("\n", " ")
    paint(tmp_path / "good", 10, seed=2, shift=20, flat=True)
    (tmp_path / "good").rename(shop.root / "inbox" / "good")
    daemon.until(good="done")
    assert daemon.stop() == 0
    assert set(shop.published()) == {1, 2, 3}
    shop.does("fsck")
