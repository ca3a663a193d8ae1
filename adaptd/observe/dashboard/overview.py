"""The overview: what is served, is it good, what is running, what needs attention."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from adaptd.observe.dashboard.site import Site
from adaptd.observe.status import build_status
from adaptd.records import AccuracyKind, DomainState, Version, VersionState
from adaptd.releases.served import read_accuracies
from adaptd.store import Transaction

EVENTS, FINISHED, WAITING, ROWS = 8, 6, 20, 12
"""How many of each are shown."""
FORGOTTEN = 0.05
"""A domain that lost more than this share since its best is worth a look."""
QUARANTINED = 0.2
"""So is one with more than this share of its files in quarantine."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Something a person should look at, and where."""

    text: str
    domain: str | None = None
    version: int | None = None


def view_overview(tx: Transaction, site: Site) -> dict[str, Any]:
    """Everything the overview shows."""
    matrix = site.matrices.read(tx)
    status = build_status(tx, site.find_holder(), site.project.root, site.model, matrix)
    queue = status["queue"]
    waiting = [item for item in queue if item["state"] != DomainState.DONE]
    return {
        "status": status,
        "served": view_served(tx),
        "attention": _attention(tx, status),
        "waiting": waiting[:WAITING],
        "waiting_more": max(0, len(waiting) - WAITING),
        "finished": [item for item in queue if item["state"] == DomainState.DONE][-FINISHED:][::-1],
        "images": sum(domain.images for domain in tx.domains.list_all()),
        "events": view_events(tx, EVENTS),
    }


def view_served(tx: Transaction) -> dict[str, Any] | None:
    """The promoted version and how good it is on each domain, with the change since the one before."""
    served = tx.versions.find_latest(VersionState.PROMOTED)
    if served is None:
        return None
    rows = compare(tx, served)
    measured = [row["value"] for row in rows if row["kind"] == AccuracyKind.MEASURED]
    estimated = [row["value"] for row in rows if row["kind"] == AccuracyKind.ESTIMATED]
    return {
        "version": served.version,
        "restores": served.restores,
        "promoted_at": served.promoted_at,
        "rows": rows[:1] + rows[1:][-(ROWS - 1) :],
        "hidden": max(0, len(rows) - ROWS),
        "measured": sum(measured) / len(measured) if measured else None,
        "measured_count": len(measured),
        "estimated": sum(estimated) / len(estimated) if estimated else None,
        "estimated_count": len(estimated),
        "lowest": min(rows, key=lambda row: row["value"], default=None),
        "gate": served.gate,
    }


def compare(tx: Transaction, version: Version) -> list[dict[str, Any]]:
    """A version's accuracies by domain in R's order, with the change against its parent where both are known alike."""
    before = {} if version.parent is None else read_accuracies(tx, tx.versions.get(version.parent))
    rows = []
    for name, now in read_accuracies(tx, version).items():
        old = before.get(name)
        change = now.value - old.value if old is not None and old.kind is now.kind else None
        rows.append({"domain": name, "value": now.value, "kind": str(now.kind), "n": now.n})
        rows[-1] |= {"low": now.low, "high": now.high, "held_out": now.held_out, "before": old and old.value, "change": change}
    return rows


def _attention(tx: Transaction, status: dict[str, Any]) -> list[Attention]:
    """What a person should look at, the daemon's own warnings first."""
    found = [Attention(text) for text in status["daemon"]["warnings"]]
    newest = tx.versions.find_latest()
    if newest is not None and newest.state is VersionState.REJECTED:
        reasons = (newest.gate and newest.gate.reasons) or ("no reason was kept",)
        found.append(Attention(f"The gate rejected version {newest.version}: {reasons[0]}", version=newest.version))
    for name, loss in _lost(status):
        if loss > FORGOTTEN:
            found.append(
                Attention(f"On {name} an earlier version was {100 * loss:.1f} points better than what is served.", domain=name)
            )
    for item in status["queue"]:
        files = item["images"] + item["quarantined"]
        if item["quarantined"] > QUARANTINED * files:
            text = f"{item['quarantined']} of {files} files of {item['domain']} are in quarantine."
            found.append(Attention(text, domain=item["domain"]))
    return found


def _lost(status: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """How far the promoted version is below the best of R, by domain; what is measured is compared with what was."""
    matrix, served = status["matrix"], (status["served"] or {}).get("accuracies", {})
    for column, name in enumerate(matrix["domains"]):
        if name in served:
            rows = zip(matrix["R"], matrix["kind"], strict=True)
            known = [values[column] for values, kinds in rows if kinds[column] == served[name]["kind"]]
            yield name, max(known, default=served[name]["value"]) - served[name]["value"]


def view_events(tx: Transaction, count: int, before: int | None = None) -> list[dict[str, Any]]:
    """Events with their domains' names and their episodes' numbers, newest first."""
    names = {domain.id: domain.name for domain in tx.domains.list_all()}
    numbers = tx.episodes.numbers()
    return [
        {
            "id": event.id,
            "at": event.at,
            "kind": event.kind,
            "message": event.message,
            "domain": None if event.domain_id is None else names[event.domain_id],
            "episode": None if event.episode_id is None else numbers.get(event.episode_id),
            "version": event.version,
        }
        for event in tx.events.list_latest(count, before=before)
    ]
