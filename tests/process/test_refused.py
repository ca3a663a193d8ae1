"""A drop that the model does not recognise: nothing is learned from it, and the person is told."""

import json

from .conftest import wait_until


def test_a_drop_of_one_class_alone_is_refused(adapted_shop, start, paint, tmp_path):
    """The domain is refused with the reason, R and the served version stay, and the next drop is learned from as ever."""
    shop = adapted_shop
    before = shop.published(), shop.rows("SELECT * FROM accuracies")
    paint(tmp_path / "ones", 40, seed=1, classes="a", flat=True)
    (tmp_path / "ones").rename(shop.root / "inbox" / "ones")
    drained = start(shop, "--drain")
    assert (drained.end(), "ones was refused: the images look like one class" in drained.log.read_text()) == (1, True)
    assert drained.domains()["ones"] == "refused"
    daemon = start(shop)
    (queued,) = [item for item in shop.status()["queue"] if item["domain"] == "ones"]
    assert queued["state"] == "refused"
    assert any("domain ones was refused" in warning for warning in shop.status()["daemon"]["warnings"])
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
    # The file is read again, without a reload, and what the person sets is stronger.
    settings = shop.root / "adaptd.toml"
    line = next(line for line in settings.read_text().splitlines() if line.startswith("#max_source_loss"))
    settings.write_text(settings.read_text().replace(line, "max_source_loss = 0.25"))
    shop.does("retry", "ones", "--set", "method.guarded.min_agreement=0", "--set", "gate.max_negative_flips=0.5")
    tried = "SELECT config FROM episodes e JOIN domains d ON d.id = e.domain_id WHERE d.name = 'ones' ORDER BY e.id"
    wait_until(lambda: len(shop.rows(tried)) == 2, "another episode")
    first, second = (json.loads(config) for (config,) in shop.rows(tried))
    assert (first["method"]["guarded"]["min_agreement"], second["method"]["guarded"]["min_agreement"]) == (0.4, 0)
    assert (second["gate"]["max_negative_flips"], second["gate"]["max_source_loss"]) == (0.5, 0.25)
    assert daemon.stop() == 0
    assert set(shop.published()) == {1, 2, 3}
    shop.does("fsck")
