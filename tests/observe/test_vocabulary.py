"""One vocabulary: the kinds of events that the code writes, those that are listed, and those in the documentation."""

import ast
import re
from pathlib import Path

from adaptd.observe.vocabulary import EVENTS, LOG_FIELDS, tone_of

REPOSITORY = Path(__file__).resolve().parents[2]


def written() -> set[str]:
    """Every literal kind that some module hands to `events.add`, directly or through a function that takes it."""
    kinds: set[str] = set()
    for path in (REPOSITORY / "adaptd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or "events.add" not in ast.unparse(node):
                continue
            is_add = ast.unparse(node.func).endswith("events.add")
            passed = (
                node.args[:1] if is_add else [a for before, a in zip(node.args, node.args[1:], strict=False) if _is_add(before)]
            )
            kinds |= {c.value for a in passed for c in ast.walk(a) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
    return kinds


def _is_add(node: ast.expr) -> bool:
    return ast.unparse(node).endswith("events.add")


def test_every_event_is_in_the_list():
    """Nothing is written that is not listed, and nothing is listed that is never written."""
    assert written() == set(EVENTS)


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
            named = isinstance(node, ast.keyword) and node.arg == "extra"
            assigned = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "extra"
            if (named or assigned) and isinstance(node.value, ast.Dict):
                used |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    kinds = {"episode", "publish"}  # a number is named after the kind of work
    assert used | kinds == set(LOG_FIELDS)
    text = (REPOSITORY / "docs" / "observing.md").read_text(encoding="utf-8")
    assert [f"| `{name}` | {meaning} |" for name, meaning in LOG_FIELDS.items() if f"| `{name}` | {meaning} |" not in text] == []


def test_an_event_of_a_newer_adaptd_is_plain():
    """A page does not fail over a word it does not know."""
    assert tone_of("of-tomorrow") == "plain"
