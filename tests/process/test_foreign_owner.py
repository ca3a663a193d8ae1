"""A daemon that is not root, and an old version that belongs to somebody else: it is told, and everything else goes on."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.conftest import Shop

pytestmark = pytest.mark.long

USER = 65534
ENV = {"ADAPTD_TRAINING__EPOCHS": "1", "ADAPTD_EXPORT__KEEP_VERSIONS": "1", "HOME": "/nonexistent"}


@pytest.fixture
def others_shop(_trained_shop):
    """A project of another user, where that user can reach it, with version 1 owned by root."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, to own what the daemon's user may not delete, and setpriv (util-linux)")
    root = Path(tempfile.mkdtemp(prefix="adaptd-owner-", dir="/tmp"))
    root.chmod(0o755)
    shop = _trained_shop.copy(root / "shop")
    for path in (root / "shop", *(root / "shop").rglob("*")):
        os.chown(path, USER, USER)
    for path in (shop.root / "models" / "shop" / "1", *(shop.root / "models" / "shop" / "1").iterdir()):
        os.chown(path, 0, 0)
    yield shop
    shutil.rmtree(root)


def test_an_old_version_that_cannot_be_deleted(others_shop: Shop, start, pictures):
    """Retired, it stays where it is, with a warning in status and fsck; the next domain is learned, and after a restart too."""
    shop = others_shop
    for number in range(2):
        folder = shop.root / "inbox" / f"camera-{number}"
        shutil.copytree(pictures(number), folder)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, USER, USER)
        daemon = start(shop, "--drain", env=ENV, log=f"log-{number}", user=USER)
        assert daemon.end() == 0, daemon.log.read_text()
    assert set(daemon.domains().values()) == {"done"}
    assert sorted(path.name for path in (shop.root / "models" / "shop").glob("[0-9]*")) == ["1", "3"]
    daemon = start(shop, env=ENV, user=USER)
    daemon.hear("watching")
    warnings = "\n".join(shop.status()["daemon"]["warnings"])
    assert "version 1 is retired, but" in warnings
    assert daemon.stop() == 0
    checked = shop.run("fsck")
    assert "version 1 is retired, but" in checked.stdout
    assert "backup" not in checked.stdout
