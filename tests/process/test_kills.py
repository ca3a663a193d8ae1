"""SIGKILL of the whole process group at random moments, again and again: it ends as if nothing had been, and nothing is lost.

ADAPTD_KILLS sets how many kills; `make kills` makes 60 of them. With ADAPTD_KEPT=FOLDER the projects stay there, and
ADAPTD_SITTING=50 ends after so many of the kills: run again, the test goes on from there, and compares when all are made.
"""

import hashlib
import json
import os
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import Shop

from .conftest import SECONDS

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("ADAPTD_KILLS", "6"))
DOMAINS = 12 if KILLS >= 200 else 6 if KILLS >= 60 else 2
KEPT, SITTING = os.environ.get("ADAPTD_KEPT"), int(os.environ.get("ADAPTD_SITTING", str(KILLS)))
SEED, MOMENT_SECONDS = 20260202, 10
ENV = {"ADAPTD_TRAINING__EPOCHS": str(12 * KILLS // DOMAINS)}
"""Long enough for all kills to find work, and short enough for them to meet most of the episodes."""


def files_in(folder: Path) -> Counter[str]:
    """Every file below by its content."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                found[hashlib.sha256(path.read_bytes()).hexdigest()] += 1
    return found


def accounted(shop) -> Counter[str]:
    """Files in the inbox, in domains and in quarantine, together."""
    return files_in(shop.root / "inbox") + files_in(shop.state / "domains") + files_in(shop.state / "quarantine")


def outcome(shop) -> dict:
    """What must be the same, bit for bit."""
    return {
        "R": shop.rows("SELECT version, domain_id, kind, value, n FROM accuracies ORDER BY version, domain_id, kind"),
        "weights": shop.rows("SELECT version, parent, weights_sha256 FROM versions ORDER BY version"),
        "files": files_in(shop.state / "weights"),
        "images": shop.rows(
            "SELECT domain_id, sha256, name, split, label, delivery FROM images ORDER BY domain_id, delivery, sha256"
        ),
        "memory": shop.rows(
            "SELECT i.sha256, m.pseudo_label, m.confidence FROM memories m JOIN images i ON i.id = m.image_id ORDER BY i.sha256"
        ),
        "quarantine": shop.rows("SELECT domain_id, name, reason, detail, path FROM quarantine ORDER BY domain_id, name"),
        "domains": shop.rows("SELECT id, name, position, state, reason, images, quarantined FROM domains ORDER BY id"),
        "drops": shop.rows("SELECT domain_id, number, path, files, delivery, accepted, duplicates FROM drops ORDER BY domain_id"),
        "episodes": shop.rows("SELECT number, domain_id, delivery, method, state FROM episodes ORDER BY number"),
    }


def figure(shop, moment: str) -> object:
    """Something that changes when the work gets to a certain moment."""
    queries = {
        "claim": "SELECT count(*) FROM drops",
        "rows": "SELECT count(*) FROM images",
        "queue": "SELECT count(*) FROM episodes",
        "lease": "SELECT sum(lease_fence) FROM episodes",
        "step": "SELECT id, step FROM checkpoints ORDER BY id DESC LIMIT 1",
        "commit": "SELECT count(*) FROM versions",
    }
    if moment in queries:
        return shop.rows(queries[moment])
    room = {"decode": "cache", "weights": "weights", "aside": "quarantine"}[moment]
    return sorted(str(path) for path in (shop.state / room).glob("*"))


IMPORTING = ("claim", "decode", "rows", "queue", "aside")
TRAINING = ("start", "lease", "step", "step", "step", "weights", "commit")


def list_moments(shop) -> tuple[str, ...]:
    """Those that may still come: what is imported is not imported again."""
    imported = shop.rows("SELECT count(*) FROM drops WHERE delivery IS NOT NULL") == [(DOMAINS,)]
    return TRAINING if imported else IMPORTING + TRAINING


def is_over(shop) -> bool:
    """Whether all domains are done."""
    return shop.rows("SELECT count(*) FROM domains WHERE state = 'done'") == [(DOMAINS + 1,)]


def wait_for(shop, moment: str, chance: random.Random) -> None:
    """Until the work gets there, or for a while: it may be over for good."""
    if moment == "start":
        time.sleep(chance.uniform(0, 1.2))
        return
    before, deadline = figure(shop, moment), time.monotonic() + MOMENT_SECONDS
    while figure(shop, moment) == before and time.monotonic() < deadline and not is_over(shop):
        time.sleep(0.002)
    time.sleep(chance.choice([0, 0, chance.uniform(0, 0.2)]))


def fill(inbox: Path, pictures, drop) -> None:
    """Some drops, whose order is fixed by the order in which they came; each with a file that is no image, and a twin."""
    for number in range(DOMAINS):
        folder = drop(pictures(number), inbox / f"camera-{number}")
        (folder / "broken.jpg").write_bytes(b"no image %d" % number)
        twin = min(folder.glob("*.png"))
        (folder / "twin.png").write_bytes(twin.read_bytes())


@pytest.fixture
def tally(shop, tmp_path, pictures, drop):
    """How many kills there were, how many of them found work; the projects to be killed and to be left alone are beside it."""
    file = (Path(KEPT) if KEPT else tmp_path / "kept") / "tally.json"
    if not file.exists():
        for name in ("killed", "calm"):
            fill(shop.copy(file.parent / name).root / "inbox", pictures, drop)
        file.write_text("[0, 0]")
    return file


def test_killed_again_and_again(tally, zygote, start, adaptd, figures):
    """R, weights, memories and rows equal those of the undisturbed run; at every kill each file is in exactly one place."""
    shop, calm = Shop(tally.parent / "killed", zygote), Shop(tally.parent / "calm", zygote)
    killed, busy = json.loads(tally.read_text())
    wanted, chance = accounted(calm), random.Random(SEED + killed)
    for number in range(killed, min(killed + SITTING, KILLS)):
        daemon = start(shop, env=ENV, log=f"log-{number}")
        wait_for(shop, chance.choice(list_moments(shop)), chance)
        assert daemon.process.poll() is None, daemon.log.read_text()
        busy += not is_over(shop)
        daemon.kill()
        assert accounted(shop) == wanted
        killed = number + 1
        tally.write_text(json.dumps([killed, busy]))
    if killed < KILLS:
        pytest.skip(f"{killed} of {KILLS} kills are made: run it again to go on")
    assert busy >= KILLS * 3 // 4, f"only {busy} of {KILLS} kills came while there was work"
    ((ended,),) = shop.rows("SELECT count(*) FROM episodes WHERE number > 0")
    last = start(shop, "--drain", env=ENV)
    assert last.process.wait(max(3, DOMAINS) * SECONDS) == 0, last.log.read_text()
    assert start(calm, "--drain", env=ENV, log="log-calm").process.wait(max(3, DOMAINS) * SECONDS) == 0
    assert outcome(shop) == outcome(calm)
    assert accounted(shop) == accounted(calm) == wanted
    assert shop.rows("PRAGMA integrity_check") == [("ok",)]
    assert shop.rows("PRAGMA foreign_key_check") == []
    assert shop.rows("SELECT DISTINCT state FROM domains") == [("done",)]
    assert [path for path in shop.state.rglob("*") if path.name.startswith((".unfinished", ".claim", ".episode"))] == []
    checked = adaptd("--project", shop.root, "fsck", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert json.loads(checked.stdout)["schema"].startswith("adaptd.fsck/")
    figures(kills=KILLS, busy=busy, episodes=DOMAINS, ended_between_kills=ended, lost=0, equal=True)
