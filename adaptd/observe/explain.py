"""The whole story of one domain, gathered from the store for `adaptd explain`. How it looks is the command line's business."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.labels.summary import describe_labels
from adaptd.observe.status import find_outcome, find_running
from adaptd.records import EVERYTHING, Domain, Episode, Version
from adaptd.releases.matrix import read_matrix
from adaptd.store import Transaction
from adaptd.text import to_iso

SCHEMA = "adaptd.explain/2"
EVENTS = 1000
EXAMPLES = 3
"""Names told for each reason."""


def build_explanation(tx: Transaction, name: str, matrix: Matrix | None = None, confidence: float = 0.95) -> dict[str, Any]:
    """Everything `adaptd explain` shows; R is read where the caller has it not."""
    domain = tx.domains.get_named(name)
    matrix = matrix or read_matrix(tx)
    versions: dict[int, list[Version]] = {}
    for version in tx.versions.list_all():
        versions.setdefault(version.episode_id, []).append(version)
    episodes = {episode.id: episode for episode in tx.episodes.list_all()}
    origins = {version.version: episodes[version.episode_id].number for found in versions.values() for version in found}
    mine = [episode for episode in episodes.values() if episode.domain_id == domain.id]
    running = find_running(tx)
    numbers = {episode.id: tx.episodes.next_number() if episode == running else episode.number for episode in mine}
    return {
        "domain": domain.name,
        "state": domain.state,
        "reason": domain.reason,
        "came_at": to_iso(domain.created_at),
        "position": domain.position,
        "images": domain.images,
        "paused": [
            {"scope": pause.scope, "reason": pause.reason, "at": to_iso(pause.at)}
            for pause in tx.pauses.list_all()
            if pause.scope in {domain.name, EVERYTHING}
        ],
        "drops": _drops(tx, domain),
        "quarantined": _quarantined(tx, domain),
        "episodes": [
            {"number": numbers[episode.id]} | _episode(episode, versions.get(episode.id, []), origins, matrix) for episode in mine
        ],
        "memory": tx.memories.counts().get(domain.id, 0),
        "labels": describe_labels(tx, name, confidence) if tx.labels.list_for(domain.id) else None,
        "events": [
            {"at": to_iso(event.at), "kind": event.kind, "message": event.message}
            for event in reversed(tx.events.list_latest(EVENTS, domain.id))
        ],
    }


def _drops(tx: Transaction, domain: Domain) -> list[dict[str, Any]]:
    return [
        {
            "number": drop.number,
            "claimed_at": to_iso(drop.claimed_at),
            "files": drop.files,
            "size_bytes": drop.size_bytes,
            "delivery": drop.delivery,
            "accepted": drop.accepted,
            "duplicates": drop.duplicates,
            "crashes": drop.crashes,
        }
        for drop in tx.drops.list_all(domain.id)
    ]


def _quarantined(tx: Transaction, domain: Domain) -> list[dict[str, Any]]:
    """What is in quarantine, by reason, the most frequent first."""
    items = tx.quarantine.list_all(domain.id)
    counts = Counter(item.reason for item in items)
    return [
        {"reason": reason, "count": count, "names": [item.name for item in items if item.reason == reason][:EXAMPLES]}
        for reason, count in counts.most_common()
    ]


def _episode(episode: Episode, versions: list[Version], origins: dict[int, int | None], matrix: Matrix) -> dict[str, Any]:
    parent = versions[0].parent if versions else None
    seconds = None
    if episode.started_at is not None and episode.finished_at is not None:
        seconds = (episode.finished_at - episode.started_at).total_seconds()
    return {
        "delivery": episode.delivery,
        "method": episode.method,
        "state": episode.state,
        "outcome": find_outcome(episode, versions),
        "attempts": episode.attempts,
        "crashes": episode.crashes,
        "reason": episode.reason,
        "queued_at": to_iso(episode.created_at),
        "started_at": to_iso(episode.started_at),
        "finished_at": to_iso(episode.finished_at),
        "seconds": seconds,
        "versions": [_version(version) for version in versions],
        "novelty": episode.report.get("novelty"),
        "effect": _effect(episode.number, None if parent is None else origins[parent], matrix),
        "trust": episode.report.get("trust"),
        "health": episode.report.get("health", []),
    }


def _version(version: Version) -> dict[str, Any]:
    return {
        "version": version.version,
        "state": version.state,
        "restores": version.restores,
        "gate": None if version.gate is None else asdict(version.gate),
        "forced_because": version.forced_because,
        "int8": None if version.int8 is None else asdict(version.int8),
        "promoted_at": to_iso(version.promoted_at),
    }


def _effect(number: int | None, parent: int | None, matrix: Matrix) -> list[dict[str, Any]]:
    """What it did to R, domain by domain: its row against that of the episode whose weights it began with."""
    rows = dict(zip(matrix.episodes, matrix.rows, strict=True))
    if number not in rows:
        return []
    before = rows[parent] if parent in rows else (None,) * len(matrix.domains)
    return [
        {"domain": name, "before": _entry(old), "after": _entry(new)}
        for name, old, new in zip(matrix.domains, before, rows[number], strict=True)
        if new is not None
    ]


def _entry(entry: Entry | None) -> dict[str, Any] | None:
    return None if entry is None else asdict(entry)
