"""One vocabulary: the kinds of events that the code writes, those that are listed, and those in the documentation."""

import ast
import re
from pathlib import Path

from adaptd.observe.vocabulary import EVENTS, LOG_FIELDS, tone_of
from adaptd.records import EventKind

REPOSITORY = Path(__file__).resolve().parents[2]


def written() -> set[EventKind]:
    """Every kind that some module but the list itself names."""
    kinds: set[EventKind] = set()
    for path in (REPOSITORY / "adaptd").rglob("*.py"):
        if path.name != "vocabulary.py":
            kinds |= {EventKind[name] for name in re.findall(r"\bEventKind\.([A-Z0-9_]+)", path.read_text(encoding="utf-8"))}
    return kinds


def test_every_event_is_in_the_list():
    """Nothing is written that is not listed, and nothing is listed that is never written."""
    assert written() == set(EVENTS) == set(EventKind)


def test_the_documentation_has_the_same_list():
    """docs/observing.md explains every kind, in the same words."""
    text = (REPOSITORY / "docs" / "observing.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| ([A-Z`].+?) \|$", text, re.MULTILINE))
    assert {kind: rows.get(kind) for kind in EVENTS} == {kind: meaning for kind, (_, meaning) in EVENTS.items()}


def test_log_lines_carry_known_fields():
    """Every `extra` of a log call has listed names only, and the documentation lists them."""
    used: set[str] = set()
    for path in (REPOSITORY / "adaptd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "extra":
                dictionaries = [part for part in ast.walk(node.value) if isinstance(part, ast.Dict)]
                used |= {key.value for part in dictionaries for key in part.keys if isinstance(key, ast.Constant)}
    kinds = {"episode", "version"}  # as `Job.log_fields` names them
    assert used | kinds == set(LOG_FIELDS)
    text = (REPOSITORY / "docs" / "observing.md").read_text(encoding="utf-8")
    assert [f"| `{name}` | {meaning} |" for name, meaning in LOG_FIELDS.items() if f"| `{name}` | {meaning} |" not in text] == []


def test_an_event_of_a_newer_adaptd_is_plain():
    """A page does not fail over a word it does not know."""
    assert tone_of("of-tomorrow") == "plain"
