"""The overview: what is served and how good it is, what the newest episode changed, what is running, what needs a person."""

from typing import Any

from adaptd.observe.dashboard.attention import list_attention
from adaptd.observe.dashboard.charts import Chart, chart_curves
from adaptd.observe.dashboard.site import Site
from adaptd.observe.status import build_status, find_running, list_warnings
from adaptd.records import EVERYTHING, AccuracyKind, DomainState, Version, VersionState
from adaptd.releases.served import read_accuracies
from adaptd.store import Transaction

EVENTS, FINISHED, WAITING, ROWS = 8, 6, 20, 12
"""How many of each are shown."""
TOLD = 12
"""Steps of the running episode on a page that has no script; the script asks for all that are kept."""
CURVES = (("losses", "Losses"), ("multipliers", "Multipliers of the constraints"), ("health", "Health, without labels"))
FINISHED_STATES = (DomainState.DONE, DomainState.REJECTED)


def view_overview(tx: Transaction, site: Site) -> dict[str, Any]:
    """Everything the overview shows."""
    matrix, holder = site.matrices.read(tx), site.find_holder()
    domains = {domain.id: domain for domain in tx.domains.list_all()}
    status = build_status(tx, holder, site.project.root, site.model, matrix, domains)
    queue = status["queue"]
    waiting = [item for item in queue if item["state"] not in FINISHED_STATES]
    return {
        "status": status,
        "served": view_served(tx),
        "attention": list_attention(list_warnings(tx, domains, find_running(tx), holder), status),
        "is_paused": any(pause.scope == EVERYTHING for pause in tx.pauses.list_all()),
        "curves": view_curves(tx) if status["episode"] else [],
        "waiting": waiting[:WAITING],
        "waiting_more": max(0, len(waiting) - WAITING),
        "finished": [item for item in queue if item["state"] in FINISHED_STATES][-FINISHED:][::-1],
        "images": sum(domain.images for domain in domains.values()),
        "events": view_events(tx, EVENTS),
    }


def view_curves(tx: Transaction) -> list[tuple[str, str, Chart]]:
    """The running episode from its start, as far as it was told: key, title and chart of each kind."""
    running = find_running(tx)
    points = () if running is None else tx.curves.list_for(running.id)
    return [(key, title, chart_curves(points, key, TOLD)) for key, title in CURVES]


def read_curves(tx: Transaction) -> list[dict[str, Any]]:
    """The same for the pages' script: all that is kept of the running episode."""
    running = find_running(tx)
    return [] if running is None else [{"step": step, "live": live} for step, live in tx.curves.list_for(running.id)]


def view_served(tx: Transaction) -> dict[str, Any] | None:
    """The promoted version, how good it is on each domain, and what the episode that it came of changed."""
    served = tx.versions.find_latest(VersionState.PROMOTED)
    if served is None:
        return None
    origin = served if served.restores is None else tx.versions.get(served.restores)
    learned = tx.domains.get(tx.episodes.get(origin.episode_id).domain_id).name
    rows = compare(tx, origin, served)
    own = next((row for row in rows if row["domain"] == learned), None)
    return {
        "version": served.version,
        "restores": served.restores,
        "promoted_at": served.promoted_at,
        "rows": _choose(rows, learned),
        "hidden": max(0, len(rows) - ROWS),
        "learned": learned,
        "own": own,
        "parent": origin.parent,
        "lowest": min(rows, key=lambda row: row["value"], default=None),
        "gate": served.gate,
        **_averages(rows),
    }


def _averages(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Measured and estimated apart, each with the number of domains and images behind it."""
    told: dict[str, Any] = {}
    for kind in AccuracyKind:
        mine = [row for row in rows if row["kind"] == kind]
        told[kind.value] = sum(row["value"] for row in mine) / len(mine) if mine else None
        told[f"{kind}_count"], told[f"{kind}_images"] = len(mine), sum(row["n"] or 0 for row in mine)
    return told


def _choose(rows: list[dict[str, Any]], learned: str) -> list[dict[str, Any]]:
    """As many as are shown: what was learned last, then the source and the newest."""
    first = [row for row in rows if row["domain"] == learned]
    others = [row for row in rows if row["domain"] != learned]
    return first + others[:1] + others[1:][-(ROWS - 2) :]


def compare(tx: Transaction, version: Version, served: Version | None = None) -> list[dict[str, Any]]:
    """A version's accuracies by domain in R's order, with the change against its parent where both are known alike.

    What was learned anew of `served`, which has the same weights, counts too.
    """
    before = {} if version.parent is None else read_accuracies(tx, tx.versions.get(version.parent))
    rows = []
    for name, now in read_accuracies(tx, served or version).items():
        old = before.get(name)
        is_alike = old is not None and old.kind is now.kind
        rows.append({"domain": name, "value": now.value, "kind": str(now.kind), "n": now.n})
        rows[-1] |= {"low": now.low, "high": now.high, "held_out": now.held_out, "before": old and old.value}
        rows[-1] |= {"before_kind": old and str(old.kind), "change": now.value - old.value if old and is_alike else None}
    return rows


def view_events(tx: Transaction, count: int, before: int | None = None) -> list[dict[str, Any]]:
    """Events with their domains' names and their episodes' numbers, newest first."""
    events = tx.events.list_latest(count, before=before)
    names = {d.id: d.name for d in tx.domains.list_some({event.domain_id for event in events if event.domain_id is not None})}
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
        for event in events
    ]
