"""The status document: one consistent view of the store and the daemon, as `adaptd status --json` prints it."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.records import Accuracy, AccuracyKind, Domain, Episode, EpisodeState, Version, VersionState
from adaptd.store import Transaction

SCHEMA = "adaptd.status/1"


def build_status(tx: Transaction, daemon_pid: int | None, project: Path, model: str) -> dict[str, Any]:
    """Everything `adaptd status` shows.

    Args:
        tx: a reading transaction.
        daemon_pid: the running daemon, None where none runs.
        project: the project folder.
        model: the model's name.
    """
    domains = {domain.id: domain for domain in tx.domains.list_all()}
    running = next(iter(tx.episodes.list_all(EpisodeState.TRAINING)), None)
    promoted = tx.versions.find_latest(VersionState.PROMOTED)
    matrix = read_matrix(tx)
    return {
        "project": str(project),
        "model": model,
        "daemon": {
            "running": daemon_pid is not None,
            "pid": daemon_pid,
            "state": _state(daemon_pid, running),
            "warnings": _warnings(domains.values(), running, daemon_pid),
        },
        "queue": [_queued(domain) for domain in domains.values() if domain.position != 0],
        "episode": None if running is None else _episode(running, domains[running.domain_id]),
        "served": None if promoted is None else {"version": promoted.version, "promoted_at": _moment(promoted.promoted_at)},
        "matrix": matrix.to_json(),
        "metrics": matrix.metrics_json(),
    }


def read_matrix(tx: Transaction) -> Matrix:
    """R from the store: a row for each committed episode, a column for each placed domain."""
    domains = sorted((d for d in tx.domains.list_all() if d.position is not None), key=lambda d: d.position or 0)
    episodes = sorted((e for e in tx.episodes.list_all(EpisodeState.DONE)), key=lambda e: e.number or 0)
    first_version: dict[int, Version] = {}
    for version in tx.versions.list_all():
        first_version.setdefault(version.episode_id, version)
    known = _best_known(tx.accuracies.list_all())
    rows = tuple(
        tuple(known.get((first_version[e.id].version, d.id)) if e.id in first_version else None for d in domains)
        for e in episodes
    )
    numbers = {d.id: index for index, d in enumerate(domains)}
    adapted = tuple(numbers[e.domain_id] for e in episodes)
    return Matrix(tuple(d.name for d in domains), tuple(e.number or 0 for e in episodes), rows, adapted)


def _best_known(accuracies: tuple[Accuracy, ...]) -> Mapping[tuple[int, int], Entry]:
    """One entry for a version and domain: measured where there is one, else estimated."""
    known: dict[tuple[int, int], Entry] = {}
    for accuracy in sorted(accuracies, key=lambda a: a.kind is AccuracyKind.MEASURED):
        known[accuracy.version, accuracy.domain_id] = Entry(accuracy.value, accuracy.kind, accuracy.n)
    return known


def _state(pid: int | None, running: Episode | None) -> str:
    if pid is None:
        return "stopped"
    return "idle" if running is None else "training"


def _warnings(domains: Any, running: Episode | None, pid: int | None) -> list[str]:
    failed = [f"domain {d.name} failed: {d.reason or 'see its events'}" for d in domains if d.state == "failed"]
    if running is not None and pid is None:
        failed.append(f"episode {running.id} was interrupted and goes on when adaptd runs again")
    return failed


def _queued(domain: Domain) -> dict[str, Any]:
    return {
        "domain": domain.name,
        "state": domain.state,
        "images": domain.images,
        "quarantined": domain.quarantined,
        "reason": domain.reason,
    }


def _episode(episode: Episode, domain: Domain) -> dict[str, Any]:
    progress = episode.progress
    share = progress.step / progress.steps if progress.steps else 0.0
    return {
        "id": episode.id,
        "domain": domain.name,
        "method": episode.method,
        "phase": progress.phase,
        "step": progress.step,
        "steps": progress.steps,
        "progress": share,
        "eta_seconds": _eta(episode, share),
    }


def _eta(episode: Episode, share: float) -> float | None:
    """Seconds left if it goes on as it went so far."""
    since, until = episode.started_at, episode.progress.updated_at
    if not share or since is None or until is None:
        return None
    return (until - since).total_seconds() * (1 - share) / share


def _moment(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat(timespec="seconds").replace("+00:00", "Z")
