"""What needs a person, with what that person may do about it. The doing is `actions`'."""

from collections.abc import Iterator, Mapping
from typing import Any

from adaptd.observe.status import Warned

FORGOTTEN = 0.05
"""A domain that lost more than this share since its best is worth a look."""
QUARANTINED = 0.2
"""So is one with more than this share of its files in quarantine."""


def list_attention(warnings: list[Warned], status: Mapping[str, Any]) -> list[Warned]:
    """The daemon's own warnings first."""
    return [*warnings, *_list_lost(status), *_list_quarantined(status)]


def _list_lost(status: Mapping[str, Any]) -> Iterator[Warned]:
    for name, loss in _lost(status):
        if loss > FORGOTTEN:
            yield Warned(f"On {name} another version is {100 * loss:.1f} points better than what is served.", name)


def _list_quarantined(status: Mapping[str, Any]) -> Iterator[Warned]:
    for item in status["queue"]:
        files = item["images"] + item["quarantined"]
        if item["quarantined"] > QUARANTINED * files:
            text = f"{item['quarantined']} of {files} files of {item['domain']} are in quarantine."
            yield Warned(text, item["domain"], actions=("quarantine",))


def _lost(status: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """How far the promoted version is below the best of R, by domain; what is measured is compared with what was."""
    matrix, served = status["matrix"], (status["served"] or {}).get("accuracies", {})
    for column, name in enumerate(matrix["domains"]):
        if name in served:
            rows = zip(matrix["R"], matrix["kind"], strict=True)
            known = [values[column] for values, kinds in rows if kinds[column] == served[name]["kind"]]
            yield name, max(known, default=served[name]["value"]) - served[name]["value"]
