"""Row 20: folders of any name are domains of their own, and everything that names a domain works with them.

`make test` has some of the names, ADAPTD_FAULTS all of them.
"""

import json
import os
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest

from .conftest import MANUAL

pytestmark = pytest.mark.long

LONG = "n" * 63
FOLDERS = {
    "北京1": "北京1",
    "上海1": "上海1",
    "Camera": "Camera",
    "camera": "camera",
    "\x1b]0;title\x07" + "\n" * 240: "\\x1b]0;title\\x07" + "\\x0a" * 240,
    "*": "\\x2a",
    '<b>"&{}%s': '<b>"&{}%s',
    os.fsdecode(b"na\xefve"): "na\\xefve",
    "Zürich": "Zürich",
    "Zárich": "Zárich",
    LONG + "a": LONG + "a",
    LONG + "b": LONG + "b",
    "字" * 85: "字" * 85,  # 255 bytes
    "a\\x1b": "a\\\\x1b",
    "a\x1b": "a\\x1b",
}
if not os.environ.get("ADAPTD_FAULTS"):
    FOLDERS = dict(list(FOLDERS.items())[:7])


def read(address: str, path: str) -> str:
    """A page of the daemon."""
    with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:
        return answer.read().decode()


def test_distinct_names_stay_distinct(shop, start, drop, paint, tmp_path):
    """Each folder is a domain, shown as it was written; commands, pages, metrics and quarantine work with every name."""
    for number, folder in enumerate(FOLDERS):
        pictures = paint(tmp_path / f"p{number}", 6, seed=300 + number, flat=True)
        (pictures / "broken.jpg").write_bytes(b"no image %d" % number)
        drop(pictures, Path(shop.root / "inbox", folder))
    daemon = start(shop, env=MANUAL)
    for name in FOLDERS.values():
        daemon.until(**{name: "queued"})
    status = shop.status()
    assert {item["domain"]: item["images"] for item in status["queue"] if item["domain"] != "source"} == dict.fromkeys(
        FOLDERS.values(), 18
    )
    address = daemon.lines("watching")[0]["address"]
    listed = read(address, "/domains")
    for name in FOLDERS.values():
        assert quote(name, safe="") in listed
        assert "<h1" in read(address, f"/domains/{quote(name, safe='')}")
        assert shop.does("resume", "--", name).returncode == 0
        assert shop.does("pause", "--", name).returncode == 0
        assert json.loads(shop.does("explain", "--json", "--", name).stdout)["domain"] == name
    read(address, "/metrics")
    shown = shop.does("status").stdout + shop.does("quarantine", "list").stdout + daemon.log.read_text()
    assert "\x1b" not in shown
    assert daemon.stop() == 0
    assert shop.rows("SELECT count(*) FROM pauses WHERE scope = '*'") == [(0,)], "a folder named * is not everything"
    places = shop.rows("SELECT count(DISTINCT path), sum(path LIKE 'quarantine/%/1/broken.jpg') FROM quarantine")
    assert places == [(len(FOLDERS), len(FOLDERS))]
    shop.does("quarantine", "restore", "--reason", shop.rows("SELECT reason FROM quarantine")[0][0])
    assert sorted(path.parent.name for path in (shop.root / "inbox").glob("*/broken.jpg")) == sorted(FOLDERS)
    checked = shop.run("fsck")
    assert checked.returncode == 0, checked.stdout
