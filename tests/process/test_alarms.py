"""What goes wrong around the daemon: another one, an inbox that is away, too little room, a port in use."""

import socket
import time

from .conftest import MANUAL, wait_until, warned


def test_a_second_daemon_leaves_at_once(shop, start, pictures):
    """It names the first one's process and writes nothing; so does `adapt`. After the first, a second may run."""
    first = start(shop)
    first.hear("watching")
    wait_until(lambda: shop.status()["daemon"]["state"] == "idle", "being idle")
    before = {path: path.read_bytes() for path in shop.state.rglob("*") if path.is_file() and path.name != "adaptd.db-shm"}
    begun = time.monotonic()
    second = start(shop, log="second")
    assert second.end() == 1
    assert time.monotonic() - begun < 20
    told = f"adaptd: process {first.pid} (adaptd run) is working on {shop.root}: wait for it, or stop it first"
    assert second.log.read_text().splitlines() == [told]
    assert shop.refuses("adapt", pictures(0)) == told
    assert before == {path: path.read_bytes() for path in before}
    assert first.stop() == 0
    assert start(shop, "--drain").end() == 0


def test_an_inbox_that_goes_away_and_comes_back(shop, start, drop, pictures):
    """The state says so, nothing is touched, and work goes on by itself when it is back."""
    inbox, away = shop.root / "inbox", shop.root / "away"
    daemon = start(shop, env=MANUAL | {"ADAPTD_INTAKE__SETTLE_SECONDS": "3"})
    drop(pictures(0), inbox / "camera")
    daemon.until(camera="arriving")
    inbox.rename(away)
    wait_until(lambda: warned(shop, f"the inbox {inbox} is not available"), "the alarm")
    assert daemon.domains() == {"camera": "arriving"}
    assert shop.run("status", "--exit-code").returncode == 4
    away.rename(inbox)
    daemon.until(camera="queued")
    wait_until(lambda: shop.status()["daemon"]["state"] == "idle", "being well again")
    drop(pictures(1), inbox / "other")
    daemon.until(other="queued")
    assert daemon.stop() == 0


def test_too_little_room(shop, start, drop, pictures):
    """Below intake.min_free_bytes nothing is claimed, and the state says so; a reload with less goes on."""
    settings = shop.root / "adaptd.toml"
    text = settings.read_text()
    assert "\n#min_free_bytes = 500000000" in text
    line = next(line for line in text.splitlines() if line.startswith("#min_free_bytes"))
    settings.write_text(text.replace(line, "min_free_bytes = 1_000_000_000_000_000"))
    drop(pictures(0), shop.root / "inbox" / "camera")
    daemon = start(shop, env=MANUAL | {"ADAPTD_INTAKE__MIN_FREE_BYTES": None})
    wait_until(lambda: warned(shop, "less than 1,000,000,000,000,000 bytes are free"), "the alarm")
    assert daemon.domains() == {"camera": "arriving"}
    settings.write_text(text.replace(line, "min_free_bytes = 0"))
    daemon.process.send_signal(1)
    daemon.until(camera="queued")


def test_a_port_in_use(shop, start, drop, pictures):
    """There are no metrics, there is a warning, and the work is done."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        drop(pictures(0), shop.root / "inbox" / "camera")
        daemon = start(shop, env=MANUAL | {"ADAPTD_METRICS__PORT": port})
        daemon.until(camera="queued")
        assert any(f"127.0.0.1:{port} cannot be used" in w for w in shop.status()["daemon"]["warnings"])
        assert shop.status()["daemon"]["address"] is None, "those pages would be another project's"
