"""The rows of a project that has learned for years."""

import contextlib
import hashlib
import sqlite3
from pathlib import Path

from adaptd.project.settings import Settings
from adaptd.records import DomainState, EventKind, GateDecision, VersionState
from adaptd.store import NewEpisode, NewVersion, Store, Transaction


def fill_history(store: Store, address: Path, domains: int, versions: int, images: int) -> None:
    """Domains with their images, a version for each episode, and all of R."""
    with store.writing() as tx:
        names = ["source", *(f"camera-{number:03}" for number in range(1, domains))]
        made = [tx.domains.add(name, DomainState.DONE).id for name in names]
        for number in range(versions):
            _episode(tx, number, made[number % domains])
    _images(address, made, images // domains)
    _accuracies(address, made, versions)


def fill_queue(address: Path, domains: int) -> None:
    """Domains that wait, past the store, which looks at each before it writes."""
    now = "2026-11-18 12:00:00.000000"
    rows = [(f"waiting-{number:05}", "queued", now, now) for number in range(domains)]
    with contextlib.closing(sqlite3.connect(address)) as database, database:
        database.executemany("INSERT INTO domains (name, state, created_at, updated_at) VALUES (?, ?, ?, ?)", rows)


def _images(address: Path, domains: list[int], count: int) -> None:
    """Past the store, which looks at each before it writes."""
    names = [(domain, f"{domain}/{number}.png") for domain in domains for number in range(count)]
    rows = [(domain, hashlib.sha256(name.encode()).hexdigest(), name) for domain, name in names]
    into = "images (domain_id, sha256, name, size_bytes, split, state, delivery)"
    with contextlib.closing(sqlite3.connect(address)) as database, database:
        database.executemany(f"INSERT INTO {into} VALUES (?, ?, ?, 1000, 'train', 'accepted', 1)", rows)
        database.execute("UPDATE domains SET images = ?", (count,))


def _episode(tx: Transaction, number: int, domain_id: int) -> None:
    config = Settings().model_dump(mode="json")
    episode = tx.episodes.add(NewEpisode(domain_id, "grcl", 0, config, "0" * 64))
    lease = tx.episodes.lease(episode.id, "test", "boot", 1e9)
    version = tx.versions.add(NewVersion(number or None, episode.id, ("a", "b"), f"weights/{episode.id}", "0" * 64))
    tx.domains.place(domain_id)
    tx.episodes.commit(episode.id, lease, {"constraint_active_ratio": {"source": 0.5, "memory": 0.25}})
    state = VersionState.PROMOTED if number % 7 else VersionState.REJECTED
    tx.versions.set_gate(version.version, GateDecision(bool(number % 7), ("As it is.",)))
    tx.versions.set_state(version.version, state)
    tx.events.add(
        EventKind.EPISODE_DONE, f"episode {number}", domain_id=domain_id, episode_id=episode.id, version=version.version
    )


def _accuracies(address: Path, domains: list[int], versions: int) -> None:
    """As the images."""
    rows = [
        (version, domain, "measured", 0.7 + 0.001 * (version + place) % 0.3, 100, 70)
        for version in range(1, versions + 1)
        for place, domain in enumerate(domains[:version])
    ]
    with contextlib.closing(sqlite3.connect(address)) as database, database:
        columns = "version, domain_id, kind, value, n, correct"
        database.executemany(f"INSERT INTO accuracies ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)
