"""The list of versions, and one version: its card, what the gate said, what changed against its parent, what may be done."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from adaptd.errors import PublishError
from adaptd.evaluation.matrix import Entry, Matrix, Row
from adaptd.observe.dashboard.gallery import Seen, count_flows, read_seen
from adaptd.observe.dashboard.overview import compare
from adaptd.observe.dashboard.site import Site
from adaptd.observe.version_list import describe_versions
from adaptd.records import Version, VersionState
from adaptd.store import Transaction

PAGE = 50
PICTURES = 24
"""Of those that are newly right, and of those that are newly wrong."""
SORTS = {"newest": "newest first", "accuracy": "least accurate first", "gain": "least gain first"}


@dataclass(frozen=True, slots=True)
class AskedVersions:
    """What an address asks of the list; what it does not know is as good as none."""

    sort: str = "newest"
    state: str = ""
    page: int = 0

    def at(self, page: int) -> str:
        """The address of another page."""
        return "/versions?" + urlencode({"sort": self.sort, "state": self.state, "page": page})


def view_versions(tx: Transaction, site: Site, asked: AskedVersions | None = None) -> dict[str, Any]:
    """A page of the versions that are asked for, each with what it reaches on the domain that it learned."""
    asked = asked or AskedVersions()
    versions = describe_versions(tx, site.project.models)
    reached = _reached(site.matrices.read(tx), versions)
    meant = [item | reached[item["version"]] for item in reversed(versions) if asked.state in {"", item["state"]}]
    if asked.sort == "accuracy":
        meant.sort(key=lambda item: 2.0 if item["own"] is None else item["own"].value)
    elif asked.sort == "gain":
        meant.sort(key=lambda item: 2.0 if item["gain"] is None else item["gain"])
    last = max(0, -(-len(meant) // PAGE) - 1)
    page = min(asked.page, last)
    return {
        "asked": asked,
        "versions": meant[page * PAGE : (page + 1) * PAGE],
        "meant": len(meant),
        "all": len(versions),
        "sorts": list(SORTS.items()),
        "states": [state.value for state in VersionState],
        "newer": asked.at(page - 1) if page else None,
        "older": asked.at(page + 1) if page < last else None,
    }


def _reached(matrix: Matrix, versions: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """By version: accuracy on the domain that it learned, before and after, on the source, and the mean of its row."""
    rows: dict[Any, Row] = dict(zip(matrix.episodes, matrix.rows, strict=True))
    columns = {name: j for j, name in enumerate(matrix.domains)}
    episodes = {item["version"]: item["episode"] for item in versions}
    found = {}
    for item in versions:
        row, before = rows.get(item["episode"], ()), rows.get(episodes.get(item["parent"], -1), ())
        column = columns.get(item["domain"])
        own, old = (None if column is None or not each else each[column] for each in (row, before))
        found[item["version"]] = {"own": own, "before": old, "gain": _gain(old, own), "source": row[0] if row else None}
    return found


def _gain(before: Entry | None, after: Entry | None) -> float | None:
    """None unless both are known alike."""
    return after.value - before.value if before and after and before.kind is after.kind else None


def view_version(tx: Transaction, site: Site, number: int) -> dict[str, Any]:
    """Everything about one version; PublishError where there is none."""
    version = tx.versions.find(number)
    if version is None:
        raise PublishError(f"there is no version {number}")
    items = describe_versions(tx, site.project.models)
    item = next(each for each in items if each["version"] == number)
    return {
        "item": item,
        "version": version,
        "figures": version.gate.figures if version.gate else {},
        "rows": compare(tx, version),
        **_view_change(tx, site, version),
        "card": read_card(Path(item["path"])) if item["path"] else None,
        "children": [each["version"] for each in items if each["parent"] == number],
        "actions": _actions(items, item),
    }


def _view_change(tx: Transaction, site: Site, version: Version) -> dict[str, Any]:
    """Which images its episode saw change from what to what: as a flow by domain, and the pictures of right and wrong."""
    insight = site.pictures.find_insight(version.episode_id)
    if insight is None or not insight.before:
        return {"flows": [], "newly": []}
    names = {domain.id: domain.name for domain in tx.domains.list_some(set(insight.domains))}
    owners = dict(zip(insight.ids, insight.domains, strict=True))
    order = [key for key in dict.fromkeys(insight.domains) if key in names]
    seen = {key: read_seen(insight, key, {label.image_id: label.label for label in tx.labels.list_for(key)}) for key in order}
    every = [each for found in seen.values() for each in found]
    flows = [(names[key], len(seen[key]), sum(each.changed for each in seen[key]), count_flows(seen[key])) for key in order]
    right, wrong = [each for each in every if each.newly_right], [each for each in every if each.newly_wrong]
    images = {image.id: image for image in tx.images.list_some([each.image_id for each in right[:PICTURES] + wrong[:PICTURES]])}

    def shown(chosen: list[Seen]) -> list[tuple[str, Seen, Any]]:
        kept = [each for each in chosen[:PICTURES] if each.image_id in images]
        return [(names[owners[each.image_id]], each, images[each.image_id]) for each in kept]

    newly = [("Newly right", len(right), shown(right)), ("Newly wrong", len(wrong), shown(wrong))]
    has_truth = any(each.truth is not None for each in every)
    return {"flows": [flow for flow in flows if flow[2]], "newly": newly if has_truth else []}


def read_card(path: Path) -> dict[str, Any] | None:
    """The card beside a model, as it stands there; None where it cannot be read."""
    try:
        card: dict[str, Any] = json.loads((path if path.is_dir() else path.parent).joinpath("card.json").read_bytes())
    except (OSError, ValueError):
        return None
    return card if isinstance(card, dict) else None


def _actions(items: list[dict[str, Any]], item: dict[str, Any]) -> list[str]:
    """What a person may do with it: go back from it, go back to it, promote it against the gate's word."""
    published = (VersionState.PROMOTED, VersionState.RETIRED)
    if item["served"]:
        earlier = [each for each in items if each["version"] < item["version"] and each["state"] in published]
        return ["back"] if earlier else []
    return ["restore"] if item["state"] in published else ["promote"]
