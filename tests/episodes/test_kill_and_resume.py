"""`source import` and `adapt`, killed anywhere and run again: they end as if nothing had been, and leave nothing behind."""

import hashlib
import json
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

SEED = 20260101


def snapshot(shop) -> dict:
    """Everything that must be the same, bit for bit; seconds, dates and attempts may differ."""
    files = [path for room in ("cache", "memory", "weights") for path in sorted((shop.state / room).rglob("*")) if path.is_file()]
    reports = shop.rows(
        "SELECT number, domain_id, delivery, method, seed, config, config_hash, state, report FROM episodes ORDER BY id"
    )
    return {
        "files": {str(path.relative_to(shop.state)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
        "versions": shop.rows("SELECT version, parent, episode_id, weights_path, weights_sha256 FROM versions ORDER BY version"),
        "memories": shop.rows("SELECT image_id, domain_id, pseudo_label, confidence FROM memories ORDER BY image_id"),
        "R": shop.rows("SELECT * FROM accuracies ORDER BY version, domain_id, kind"),
        "reports": [(*row[:-1], json.loads(row[-1]) | {"seconds": 0}) for row in reports],
        "images": shop.rows("SELECT * FROM images ORDER BY id"),
        "quarantine": shop.rows("SELECT domain_id, name, reason, detail, path FROM quarantine ORDER BY id"),
        "domains": shop.rows("SELECT id, name, position, state, reason, images, quarantined FROM domains ORDER BY id"),
    }


def count(shop, table: str) -> int:
    """Rows of a table."""
    return shop.rows(f"SELECT count(*) FROM {table}")[0][0]


def newest(shop, pattern: str) -> float:
    """When the newest of some files or folders got its name."""
    times = [0.0]
    for path in shop.state.glob(pattern):
        with suppress(FileNotFoundError):
            times.append(path.stat().st_ctime)
    return max(times)


def appears(shop, pattern: str) -> Callable[[], bool]:
    """Whether something of this name appeared since."""
    before = newest(shop, pattern)
    return lambda: newest(shop, pattern) > before


def grows(shop, query: str) -> Callable[[], bool]:
    """Whether a figure in the store is larger since."""
    before = shop.rows(query)
    return lambda: shop.rows(query) > before


def at_decoding(shop) -> Callable[[], bool]:
    """Pixels are being written."""
    return appears(shop, "cache/.unfinished-*/pixels.u8")


def at_rows(shop) -> Callable[[], bool]:
    """The images are in the store, and their episode is queued."""
    return grows(shop, "SELECT count(*) FROM images")


def at_sealing(shop) -> Callable[[], bool]:
    """A cache is there."""
    return appears(shop, "cache/[0-9]*")


def at_activations(shop) -> Callable[[], bool]:
    """Another view of some images is being written."""
    return appears(shop, "activations/*/.*")


def at_training(shop) -> Callable[[], bool]:
    """A step more is done."""
    return grows(shop, "SELECT coalesce(max(step), 0) FROM checkpoints")


def at_finish(shop) -> Callable[[], bool]:
    """Weights are being written."""
    return appears(shop, "weights/.episode*")


def at_evaluation(shop) -> Callable[[], bool]:
    """The weights are there, the commit is not."""
    return appears(shop, "weights/e*")


def at_staging(shop) -> Callable[[], bool]:
    """The exported model is there, its proof is not."""
    return appears(shop, "staging/shop/*/model.onnx")


def at_commit(shop) -> Callable[[], bool]:
    """The version is in the store."""
    return grows(shop, "SELECT count(*) FROM versions")


# In this order, because a phase that is over does not come again: eleven kills for each of two commands.
PHASES = (
    at_decoding,
    at_decoding,
    at_sealing,
    at_rows,
    at_training,
    at_training,
    at_training,
    at_finish,
    at_evaluation,
    at_staging,
    at_commit,
)


def kill_at(shop, phase, chance: random.Random, words: tuple, **options) -> bool:
    """Run a command, kill it soon after a phase begins; whether it was still running."""
    is_there = phase(shop)
    process = shop.start(*words, **options)
    while process.is_running() and not is_there():
        time.sleep(0.0005)
    time.sleep(chance.choice([0, 0, chance.uniform(0, 0.05)]))
    process.kill()
    return process.wait().returncode == -signal.SIGKILL


@pytest.fixture
def new_shop(_new_shop, tmp_path):
    """A project of its own beside an undisturbed one."""
    return _new_shop.copy(tmp_path / "killed")


def test_killed_anywhere_it_ends_the_same(adapted_shop, new_shop, source, night):
    """After 22 kills, spread over all phases of two episodes, weights, memory, R, reports and files are bit-identical."""
    shop, chance, killed = new_shop, random.Random(SEED), 0
    for number, words in enumerate([("source", "import", source), ("adapt", night)], 1):
        for phase in PHASES:
            if count(shop, "versions") < number:
                killed += kill_at(shop, phase, chance, words)
        if count(shop, "versions") < number:
            shop.does(*words)
        else:
            shop.refuses(*words)  # killed after its commit: nothing is left to do but to sweep up
        assert shop.leftovers() == []
        assert shop.published() == dict(shop.rows("SELECT version, model_sha256 FROM versions WHERE state = 'promoted'"))
        assert len(shop.published()) == number
    assert killed >= 16, "too many processes ended before they were killed: this proves little"
    assert adapted_shop.leftovers() == []
    assert snapshot(shop) == snapshot(adapted_shop)
    every_file_is_in_one_place(shop, night)


def test_killed_with_activations_it_ends_the_same(shop, night, tmp_path):
    """Killed while activations are written and while it learns from them, an episode on the last stage is bit-identical."""
    words, env, chance = ("adapt", night), {"ADAPTD_TRAINING__DEPTH": "last-stage"}, random.Random(SEED)
    reference = shop.copy(tmp_path / "reference")
    reference.does(*words, env=env)
    for phase in (at_activations, at_activations, at_training, at_training):
        assert kill_at(shop, phase, chance, words, env=env)
    assert list(shop.state.glob("activations/*/*.f16"))
    shop.does(*words, env=env)
    assert snapshot(shop) == snapshot(reference)
    assert not list(shop.state.glob("activations/*"))
    assert shop.leftovers() == []
    told = json.loads(shop.rows("SELECT report FROM episodes ORDER BY id DESC LIMIT 1")[0][0])["depth"]
    assert (told["trained"], told["views"]) == ("last-stage", 3)


def every_file_is_in_one_place(shop, folder: Path) -> None:
    """Accepted, or in quarantine, or the twin of an accepted one."""
    accepted = {name for (name,) in shop.rows("SELECT name FROM images WHERE domain_id = 2")}
    refused = {name for (name,) in shop.rows("SELECT name FROM quarantine WHERE domain_id = 2")}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert (accepted & refused, refused, files - accepted - refused) == (set(), {"broken.jpg"}, {"twin.png"})


EPOCHS = 12
"""Of two steps each: enough to be stopped in."""


@pytest.fixture(scope="module")
def undisturbed(_trained_shop, night, tmp_path_factory):
    """An episode that nobody stopped."""
    shop = _trained_shop.copy(tmp_path_factory.mktemp("undisturbed") / "shop")
    shop.does("adapt", night, "--epochs", EPOCHS)
    return shop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_in_order(shop, undisturbed, night, number):
    """The step is finished and kept, one line tells so, the exit code names the signal, and the same command ends the same."""
    words = ("adapt", night, "--epochs", EPOCHS)
    is_there = at_training(shop)
    process = shop.start(*words)
    while not is_there():
        time.sleep(0.0005)
    process.signal(number)
    run = process.wait()
    assert run.returncode == 128 + number
    work = ("reading images", "60 training", "episode 1: comparing", "night: 60 images to adapt to", "about ")
    told = [line for line in run.stderr.splitlines() if not line.startswith(work)]
    assert told == [f"adaptd: stopped by {number.name}: the same command goes on from here"]
    steps = [step for (step,) in shop.rows("SELECT step FROM checkpoints ORDER BY step DESC")]
    assert len(steps) == min(2, steps[0])
    assert steps[0] < 2 * EPOCHS
    assert "was interrupted" in shop.status()["daemon"]["warnings"][0]
    assert shop.leftovers() == []
    said = shop.does(*words).stderr
    assert f"goes on where it was interrupted, with the images and settings it began with: guarded, {EPOCHS} epochs" in said
    assert "to start over with others: adaptd cancel night, then the same command" in said
    assert snapshot(shop) == snapshot(undisturbed)


def test_a_signal_while_decoding_leaves_nothing(shop, night):
    """Ctrl-C to the whole group, decoders included, before anything is recorded: nothing was there, and the next try works."""
    before = snapshot(shop)
    is_there = at_decoding(shop)
    process = shop.start("adapt", night)
    while not is_there():
        time.sleep(0.0005)
    process.signal(signal.SIGINT)
    run = process.wait()
    assert (run.returncode, run.stderr.count("\n")) == (130, 1), run.stderr
    assert shop.leftovers() == []
    assert snapshot(shop) == before
    shop.does("adapt", night)


def test_a_second_signal_stops_at_once(shop, night):
    """Who asks twice does not wait for a step; the checkpoints before it are enough to go on."""
    is_there = at_training(shop)
    process = shop.start("adapt", night, "--epochs", EPOCHS)
    while not is_there():
        time.sleep(0.0005)
    process.signal(signal.SIGSTOP)
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGINT)
    process.signal(signal.SIGCONT)
    assert process.wait().returncode in {-signal.SIGINT, -signal.SIGTERM}
    shop.does("adapt", night)
    assert shop.leftovers() == []
