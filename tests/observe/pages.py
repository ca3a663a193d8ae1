"""A small project full of hostile names, and the pages of any project served by the real server, without a daemon."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaptd.evaluation.insight import Insight
from adaptd.evaluation.novelty import Distance, Novelty, decide
from adaptd.library.cache import write_cache
from adaptd.library.imageset import ImageSet
from adaptd.library.preprocessing import Preprocessing
from adaptd.observe.dashboard.site import Site
from adaptd.observe.http import HttpThread, make_app
from adaptd.observe.pictures import StoredPictures
from adaptd.project.layers import load_project
from adaptd.project.layout import Layout
from adaptd.project.lock import Holder
from adaptd.project.settings import Settings
from adaptd.records import Accuracy, AccuracyKind, DomainState, EventKind, GateDecision, MemoryItem, NewImage, Split, VersionState
from adaptd.store import NewEpisode, NewVersion, Store, Transaction
from adaptd.store.migrate import upgrade

HOSTILE = "\"><img src=x onerror=alert(1)>'&\u202egpj.exe\nline{{7*7}}"


def make_project(root: Path) -> Path:
    """A project with a hostile name in every place that a stranger can write to."""
    (root / "adaptd.toml").write_text('[model]\nname = "shop"\n')
    (root / "state").mkdir()
    upgrade(root / "state" / "adaptd.db", root / "backups")
    with Store(root / "state" / "adaptd.db") as store, store.writing() as tx:
        _fill(tx, Layout(root / "state"))
    return root


def _fill(tx: Transaction, layout: Layout) -> None:
    source = tx.domains.add("source", DomainState.DONE)
    night = tx.domains.add("night", DomainState.DONE)
    odd = tx.domains.add(HOSTILE[:63], DomainState.FAILED)
    tx.domains.set_state(odd.id, DomainState.FAILED, HOSTILE)
    ids = tx.images.add_many(night.id, [NewImage(f"{n:064}", 10, f"{HOSTILE}{n}", label=HOSTILE) for n in range(6)])
    pixels = np.random.default_rng(0).integers(0, 255, (6, 3, 16, 16), dtype=np.uint8)
    kept = ImageSet(np.array(list(ids.values())), pixels)
    write_cache(layout.cache(night.id, 1, Split.TRAIN), kept, list(ids), Preprocessing(image_size=16))
    tx.quarantine.add(night.id, HOSTILE, "truncated", HOSTILE)
    for number, domain in enumerate((source, night), start=1):
        episode = tx.episodes.add(NewEpisode(domain.id, "grcl", 0, Settings().model_dump(mode="json"), "0" * 64))
        lease = tx.episodes.lease(episode.id, "test", "boot", 1e9)
        tx.versions.add(NewVersion(number - 1 or None, episode.id, (HOSTILE, "b"), f"weights/{number}", "0" * 64))
        tx.versions.set_gate(number, GateDecision(passed=True, reasons=(HOSTILE,)))
        tx.versions.set_state(number, VersionState.PROMOTED)
        tx.domains.place(domain.id)
        tx.accuracies.record(Accuracy(number, source.id, AccuracyKind.MEASURED, 0.9, 100, 90))
        tx.episodes.commit(episode.id, lease, {"novelty": _novelty().to_json()} if number > 1 else {})
    tx.accuracies.record(Accuracy(2, night.id, AccuracyKind.ESTIMATED, 0.75, 60, estimator="atc"))
    tx.memories.replace(night.id, [MemoryItem(next(iter(ids.values())), night.id, HOSTILE, 0.99)])
    tx.events.add(EventKind.DOMAIN_QUEUED, HOSTILE, domain_id=odd.id)
    tx.accuracies.record(Accuracy(1, night.id, AccuracyKind.ESTIMATED, 0.5, 60, estimator="atc"))
    insight = Insight(
        (HOSTILE, "b"),
        (1, 2),
        (night.id, night.id),
        (0, None),
        (0, 1),
        (1, 1),
        ((0, 0), (1, 1)),
        ((0, 1), (1, 0)),
        (0.9, 0.6),
        (0.7, 1.0),
    )
    layout.insight(2).parent.mkdir()
    layout.insight(2).write_text(insight.to_text())


def _novelty() -> Novelty:
    """A drop that was compared with a domain of a hostile name."""
    distance = Distance(HOSTILE[:63], 100, 0.97, 0.5, 0.0, HOSTILE, 0.4, 1e-9, told_apart=True)
    return decide(HOSTILE, 60, [distance], 0.005)


@contextlib.contextmanager
def serve_pages(root: Path, store: Store, **settings: Any) -> Iterator[str]:
    """Their address on this machine; `settings` are those of [metrics]."""
    project = load_project(root, {}, {f"metrics.{name}": value for name, value in settings.items()})
    health = {"state": "idle", "warnings": [], "scanned_at": time.time()}
    site = Site(project, store, lambda: Holder(1, "run", health), StoredPictures(project.state))
    thread = HttpThread(make_app(site, lambda: health), "127.0.0.1", 0)
    try:
        yield thread.address
    finally:
        thread.stop()
