"""The status document: one consistent view of the store and the daemon, as `adaptd status --json` prints it."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from adaptd.evaluation.matrix import Matrix
from adaptd.evaluation.metrics import summarize
from adaptd.intake.names import find_domain_name
from adaptd.project.layers import Project
from adaptd.project.lock import Holder, find_holder
from adaptd.records import (
    EVERYTHING,
    NEW_SOURCE,
    REFUSED,
    SECONDS_LEFT,
    Domain,
    DomainState,
    Episode,
    EpisodeState,
    Version,
    VersionState,
)
from adaptd.releases.matrix import read_matrix
from adaptd.releases.served import read_accuracies
from adaptd.store import Store, Transaction
from adaptd.text import tell_count, to_iso

SCHEMA = "adaptd.status/1"
DAEMON = "run"
"""The command of the daemon; other commands work on a project in the foreground."""


def read_status(project: Project, store: Store) -> dict[str, Any]:
    """The status document of a project."""
    holder = find_holder(project.state)
    with store.reading() as tx:
        document = build_status(tx, holder, project.root, project.settings.model.name)
    claims = project.settings.intake.mode == "claim"
    if holder is None and claims and (lying := _count_folders(project.inbox)):
        told = f"{tell_count(lying, 'folder')} in the inbox, and no daemon to take what is new: start `adaptd run`"
        document["daemon"]["warnings"].append(told)
    return document


def _count_folders(inbox: Path) -> int:
    """What nobody looks at while the daemon is stopped."""
    with suppress(OSError), os.scandir(inbox) as entries:
        return sum(entry.is_dir(follow_symlinks=False) and find_domain_name(entry.name) is not None for entry in entries)
    return 0


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that a person should know, what it is about, and what that person may do; all of it commands, but `label`."""

    text: str
    domain: str | None = None
    version: int | None = None
    actions: tuple[str, ...] = ()


def build_status(
    tx: Transaction,
    holder: Holder | None,
    project: Path,
    model: str,
    matrix: Matrix | None = None,
    domains: Mapping[int, Domain] | None = None,
) -> dict[str, Any]:
    """Everything `adaptd status` shows.

    Args:
        tx: a reading transaction.
        holder: the process at work on the project, None where there is none.
        project: the project folder.
        model: the model's name.
        matrix: R, where the caller has it already.
        domains: all of them, likewise.
    """
    if domains is None:
        domains = {domain.id: domain for domain in tx.domains.list_all()}
    running = find_running(tx)
    promoted = tx.versions.find_latest(VersionState.PROMOTED)
    matrix = matrix or read_matrix(tx)
    return {
        "project": str(project),
        "model": model,
        "daemon": {
            "running": holder is not None and holder.command == DAEMON,
            "pid": holder.pid if holder is not None else None,
            "command": holder.command if holder is not None else None,
            "state": _state(holder, running),
            "warnings": [each.text for each in list_warnings(tx, domains, running, holder)],
            "address": holder.health.get("address") if holder is not None else None,
        },
        "queue": [_queued(domain, holder) for domain in domains.values() if not is_source(domain)],
        "episode": None if running is None else describe_running(tx, running),
        "served": None if promoted is None else _served(tx, promoted),
        "matrix": matrix.to_json(),
        "metrics": summarize(matrix).to_json(),
    }


def _served(tx: Transaction, promoted: Version) -> dict[str, Any]:
    """The promoted version, and how good it is on each domain."""
    told = ("value", "kind", "n", "low", "high", "held_out")
    return {
        "version": promoted.version,
        "promoted_at": to_iso(promoted.promoted_at),
        "forced_because": promoted.forced_because,
        "gate": promoted.gate and {"passed": promoted.gate.passed, "reasons": list(promoted.gate.reasons)},
        "accuracies": {
            domain: {name: getattr(found, name) for name in told} for domain, found in read_accuracies(tx, promoted).items()
        },
    }


def is_source(domain: Domain) -> bool:
    """Whether it is the source, or was; one that is about to be is work as any other."""
    return domain.position == 0 or domain.name.startswith(f"{NEW_SOURCE}-")


def find_running(tx: Transaction) -> Episode | None:
    """The episode at work."""
    return max(tx.episodes.list_all(EpisodeState.TRAINING), key=_last_sign, default=None)


def _last_sign(episode: Episode) -> datetime:
    """Of several begun episodes the one that moved last is at work, the others were interrupted."""
    return episode.progress.updated_at or episode.started_at or episode.created_at


def _state(holder: Holder | None, running: Episode | None) -> str:
    if holder is None:
        return "stopped"
    if holder.command == DAEMON and "state" in holder.health:
        return str(holder.health["state"])
    return "idle" if running is None else "training"


def list_warnings(tx: Transaction, domains: Mapping[int, Domain], running: Episode | None, holder: Holder | None) -> list[Warned]:
    """What a person should know, and what can be done about it: the same in `status`, metrics and pages."""
    said = [] if holder is None else [Warned(text) for text in holder.health.get("warnings", ())]
    ended = [d for d in domains.values() if d.state in {DomainState.FAILED, DomainState.REFUSED}]
    said += [Warned(_tell_ended(d), d.name, actions=("retry", "label", "forget") if d.images else ("retry",)) for d in ended]
    for pause in tx.pauses.list_all():
        scope = None if pause.scope == EVERYTHING else pause.scope
        said.append(Warned(f"{scope or 'everything'} is paused: {pause.reason}", scope, actions=("resume",)))
    if running is not None and holder is None:
        name = domains[running.domain_id].name
        which = f"episode {tx.episodes.next_number()} on {name}"
        said.append(Warned(f"{which} was interrupted: `adaptd run`, or the command that began it, goes on from there", name))
    newest = tx.versions.find_latest()
    if newest is not None and newest.state is VersionState.REJECTED:
        said.append(_warn_rejected(tx, domains, newest))
    if newest is None and (holder is None or holder.command == DAEMON):
        said.append(Warned("there is no source model yet: stop the daemon if it runs, then `adaptd source import DIR`"))
    return said


def _warn_rejected(tx: Transaction, domains: Mapping[int, Domain], newest: Version) -> Warned:
    served = tx.versions.find_latest(VersionState.PROMOTED)
    domain = domains[tx.episodes.get(newest.episode_id).domain_id]
    text = explain_unpromoted(newest) if served is None else _rejected(newest, f"version {served.version} goes on")
    retried = () if domain.position == 0 or domain.state is not DomainState.REJECTED else ("retry", "label", "forget")
    return Warned(text, domain.name, newest.version, ("promote", *retried))


def _tell_ended(domain: Domain) -> str:
    verb = "failed" if domain.state is DomainState.FAILED else "was refused"
    return f"domain {domain.name} {verb}: {domain.reason or 'see its events'}"


def find_outcome(episode: Episode, versions: Iterable[Version]) -> str:
    """How an episode ended, told closer than by its state: refused instead of failed, rejected instead of done."""
    if episode.state is EpisodeState.FAILED and episode.report.get(REFUSED):
        return str(DomainState.REFUSED)
    states = {version.state for version in versions}
    return str(DomainState.REJECTED if states == {VersionState.REJECTED} else episode.state)


def explain_unpromoted(newest: Version) -> str:
    """Why nothing is served though there is a version, and what to do."""
    way_out = f"`adaptd promote {newest.version} --force --why REASON` publishes it as it is"
    reasons = " ".join((newest.gate and newest.gate.reasons) or ("no reason was kept.",))
    return f"version {newest.version} was rejected, nothing is promoted, and drops wait: {reasons} {way_out}"


def _rejected(version: Version, goes_on: str) -> str:
    reasons = (version.gate and version.gate.reasons) or ("no reason was kept",)
    return f"version {version.version} was rejected, {goes_on}: {reasons[0]}"


def _queued(domain: Domain, holder: Holder | None) -> dict[str, Any]:
    waiting = {} if holder is None else holder.health.get("waiting", {})
    return {
        "domain": domain.name,
        "state": domain.state,
        "images": domain.images,
        "quarantined": domain.quarantined,
        "reason": domain.reason or waiting.get(domain.name),
    }


def describe_running(tx: Transaction, episode: Episode) -> dict[str, Any]:
    """The `episode` of the status document. Its number is the one that it gets when it is committed."""
    progress = episode.progress
    share = progress.step / progress.steps if progress.steps else 0.0
    return {
        "number": tx.episodes.next_number(),
        "domain": tx.domains.get(episode.domain_id).name,
        "started_at": to_iso(episode.started_at),
        "method": episode.method,
        "phase": progress.phase,
        "step": progress.step,
        "steps": progress.steps,
        "progress": share,
        "live": progress.live,
        "novelty": episode.report.get("novelty", {}).get("message"),
        "attempts": episode.attempts,
        "eta_seconds": progress.live.get(SECONDS_LEFT),
    }
