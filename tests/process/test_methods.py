"""A daemon with each of the paper's other systems: killed, it ends as if nothing had been, and what it publishes is served.

`make test` kills one of them once, `make kills` all of them ten times.
"""

import os
import random
import re
import subprocess
import sys

import httpx
import pytest

from tests.conftest import REPOSITORY

from .conftest import QUICK, SECONDS, wait_until

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("ADAPTD_KILLS", "6")) // 6
METHODS = ("dann", "mcd", "dada", "cua", "gra") if KILLS > 1 else ("gra",)
"""The one with a network of its own, memory and constraints; tests/learning resumes all of them."""
STEPS = 60 + 30 * KILLS
"""An epoch has one step: the images are few."""
LENIENT = {"MAX_SOURCE_LOSS": "1", "MAX_DOMAIN_LOSS": "1", "MAX_NEGATIVE_FLIPS": "1", "MIN_CLASS_SHARE": "0"}
"""A few images and a tiny model: whether it got better is not the question here."""


def outcome(shop) -> dict[str, list]:
    """What must be the same, bit for bit."""
    return {
        "weights": shop.rows("SELECT version, parent, weights_sha256, promoted_at IS NULL FROM versions ORDER BY version"),
        "R": shop.rows("SELECT version, domain_id, kind, value, n FROM accuracies ORDER BY version, domain_id, kind"),
        "memory": shop.rows("SELECT image_id, pseudo_label, confidence FROM memories ORDER BY image_id"),
        "episodes": shop.rows("SELECT number, method, state FROM episodes ORDER BY number"),
    }


def ask_served(shop, tmp_path) -> dict:
    """The answer of `adaptd serve` for one image of the domain."""
    image = min((shop.state / "domains").rglob("*.png"))
    command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(shop.root), "serve", "--port", "0"]
    log = tmp_path / "serve.log"
    with log.open("wb") as out:
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)} | QUICK
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
    try:
        found = wait_until(lambda: re.search(r"http://[\d.]+:\d+", log.read_text()) or server.poll(), log.read_text())
        assert isinstance(found, re.Match), log.read_text()
        answer = httpx.post(f"{found[0]}/predict", files={"image": image.read_bytes()}, timeout=SECONDS)
        assert answer.status_code == 200, answer.text
        return answer.json()
    finally:
        server.terminate()
        server.wait(SECONDS)


@pytest.mark.parametrize("method", METHODS)
def test_killed_resumed_published_and_served(method, shop, tmp_path, start, drop, pictures):
    """Weights, R and memory equal those of an undisturbed run; the version is promoted and answers."""
    env = {f"ADAPTD_GATE__{key}": value for key, value in LENIENT.items()}
    env |= {"ADAPTD_METHOD__NAME": method, "ADAPTD_TRAINING__EPOCHS": str(STEPS)}
    calm = shop.copy(tmp_path / "calm")
    drop(pictures(0), shop.root / "inbox" / "camera")
    assert calm.run("adapt", pictures(0), "--domain", "camera", env=QUICK | env).returncode == 0
    for number, step in enumerate(sorted(random.Random(method).sample(range(1, STEPS // 2), KILLS))):
        daemon = start(shop, env=env, log=f"log-{number}")
        daemon.training(step)
        daemon.kill()
    assert shop.rows("SELECT state FROM episodes ORDER BY id DESC LIMIT 1") == [("training",)], "the kills came too late"
    assert start(shop, "--drain", env=env).end() == 0
    assert outcome(shop) == outcome(calm)
    assert shop.rows("SELECT method, state FROM episodes ORDER BY number")[1:] == [(method, "done")]
    assert shop.rows("SELECT version, promoted_at IS NULL FROM versions ORDER BY version")[-1] == (2, 0)
    assert ask_served(shop, tmp_path)["version"] == "2"
