"""The list of versions, and one version: its card, what the gate said, what changed against its parent, what may be done."""

import json
from pathlib import Path
from typing import Any

from adaptd.errors import PublishError
from adaptd.observe.dashboard.overview import compare
from adaptd.observe.dashboard.site import Site
from adaptd.observe.version_list import describe_versions
from adaptd.records import VersionState
from adaptd.store import Transaction

PAGE = 50


def view_versions(tx: Transaction, site: Site, before: int | None = None) -> dict[str, Any]:
    """A page of versions, newest first; with `before`, older than that one."""
    versions = describe_versions(tx, site.project.models)
    wanted = [item for item in reversed(versions) if before is None or item["version"] < before]
    return {"versions": wanted[:PAGE], "older": wanted[PAGE - 1]["version"] if len(wanted) > PAGE else None, "all": len(versions)}


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
        "card": read_card(Path(item["path"])) if item["path"] else None,
        "children": [each["version"] for each in items if each["parent"] == number],
        "actions": _actions(items, item),
    }


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
