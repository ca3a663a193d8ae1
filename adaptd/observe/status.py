"""The status document: one consistent view of the store and the daemon, as `adaptd status --json` prints it."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.evaluation.metrics import summarize
from adaptd.records import EVERYTHING, Accuracy, AccuracyKind, Domain, Episode, EpisodeState, Version, VersionState
from adaptd.store import Transaction

SCHEMA = "adaptd.status/1"
DAEMON = "run"
"""The command of the daemon; other commands work on a project in the foreground."""


class Worker(Protocol):
    """The process at work on a project."""

    @property
    def pid(self) -> int:
        """Its id."""

    @property
    def command(self) -> str:
        """Its command."""

    @property
    def health(self) -> Mapping[str, Any]:
        """What it says about itself."""


def build_status(
    tx: Transaction, working: Worker | None, project: Path, model: str, matrix: Matrix | None = None
) -> dict[str, Any]:
    """Everything `adaptd status` shows.

    Args:
        tx: a reading transaction.
        working: the process at work on the project, None where there is none.
        project: the project folder.
        model: the model's name.
        matrix: R, where the caller has it already.
    """
    domains = {domain.id: domain for domain in tx.domains.list_all()}
    running = find_running(tx)
    promoted = tx.versions.find_latest(VersionState.PROMOTED)
    matrix = matrix or read_matrix(tx)
    return {
        "project": str(project),
        "model": model,
        "daemon": {
            "running": working is not None and working.command == DAEMON,
            "pid": working.pid if working is not None else None,
            "command": working.command if working is not None else None,
            "state": _state(working, running),
            "warnings": _warnings(tx, domains.values(), running, working),
            "address": working.health.get("address") if working is not None else None,
        },
        "queue": [_queued(domain) for domain in domains.values() if domain.position != 0],
        "episode": None if running is None else describe_running(running, domains[running.domain_id]),
        "served": None if promoted is None else {"version": promoted.version, "promoted_at": _moment(promoted.promoted_at)},
        "matrix": matrix.to_json(),
        "metrics": summarize(matrix).to_json(),
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
    first_rows: dict[int, int] = {}
    for row, episode in enumerate(episodes):
        first_rows.setdefault(episode.domain_id, row)
    return Matrix(
        tuple(d.name for d in domains),
        tuple(e.number or 0 for e in episodes),
        rows,
        tuple(first_rows[d.id] for d in domains),
    )


def _best_known(accuracies: tuple[Accuracy, ...]) -> Mapping[tuple[int, int], Entry]:
    """One entry for a version and domain: measured where there is one, else estimated."""
    known: dict[tuple[int, int], Entry] = {}
    for accuracy in accuracies:
        key = accuracy.version, accuracy.domain_id
        if accuracy.kind is AccuracyKind.MEASURED or key not in known:
            known[key] = Entry(accuracy.value, accuracy.kind, accuracy.n)
    return known


def find_running(tx: Transaction) -> Episode | None:
    """The episode at work."""
    return max(tx.episodes.list_all(EpisodeState.TRAINING), key=_last_sign, default=None)


def _last_sign(episode: Episode) -> datetime:
    """Of several begun episodes the one that moved last is at work, the others were interrupted."""
    return episode.progress.updated_at or episode.started_at or episode.created_at


def _state(working: Worker | None, running: Episode | None) -> str:
    if working is None:
        return "stopped"
    if working.command == DAEMON and "state" in working.health:
        return str(working.health["state"])
    return "idle" if running is None else "training"


def _warnings(tx: Transaction, domains: Iterable[Domain], running: Episode | None, working: Worker | None) -> list[str]:
    said = [] if working is None else list(working.health.get("warnings", ()))
    said += [f"domain {d.name} failed: {d.reason or 'see its events'}" for d in domains if d.state == "failed"]
    said += [f"{'everything' if p.scope == EVERYTHING else p.scope} is paused: {p.reason}" for p in tx.pauses.list_all()]
    if running is not None and working is None:
        said.append(f"episode {running.id} was interrupted: `adaptd run`, or the command that began it, goes on from there")
    newest = tx.versions.find_latest()
    if newest is not None and newest.state is VersionState.REJECTED:
        served = tx.versions.find_latest(VersionState.PROMOTED)
        goes_on = "nothing is served" if served is None else f"version {served.version} goes on"
        reasons = (newest.gate or {}).get("reasons") or ("no reason was kept",)
        said.append(f"version {newest.version} was rejected, {goes_on}: {reasons[0]}")
    if newest is None:
        said.append("there is no source model yet: stop the daemon if it runs, then `adaptd source import DIR`")
    return said


def _queued(domain: Domain) -> dict[str, Any]:
    return {
        "domain": domain.name,
        "state": domain.state,
        "images": domain.images,
        "quarantined": domain.quarantined,
        "reason": domain.reason,
    }


def describe_running(episode: Episode, domain: Domain) -> dict[str, Any]:
    """The `episode` of the status document."""
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
        "live": progress.live,
        "attempts": episode.attempts,
        "eta_seconds": _eta(episode),
    }


def _eta(episode: Episode) -> float | None:
    """Seconds left if it goes on as it went since its worker began."""
    progress = episode.progress
    done = progress.step - progress.since_step
    if done <= 0 or progress.since is None or progress.updated_at is None:
        return None
    return (progress.updated_at - progress.since).total_seconds() * (progress.steps - progress.step) / done


def _moment(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat(timespec="seconds").replace("+00:00", "Z")
