"""docs/faq.md quotes what adaptd really says."""

import ast
import re

import pytest

from adaptd.records import Reason
from tests.conftest import REPOSITORY

FAQ = (REPOSITORY / "docs" / "faq.md").read_text()
QUOTED = re.findall(r"^> `(.*)`$", FAQ, re.MULTILINE)
REASONS = re.findall(r"^\| `([a-z-]+)` \| `(.*?)` \|", FAQ, re.MULTILINE)


def texts() -> str:
    """Every text in the package, one a line, with … for what is filled in."""
    found = []
    for path in sorted((REPOSITORY / "adaptd").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


TEXTS = texts()


@pytest.mark.parametrize("message", [*QUOTED, *(detail for _, detail in REASONS)])
def test_adaptd_says_so(message):
    """The words stand in the code like this, with a gap wherever something is filled in."""
    assert len(message.replace("…", "")) >= 7, "too little to recognise"
    assert message in TEXTS


def test_every_reason_for_quarantine_is_explained():
    """None is missing, none is made up."""
    assert {reason for reason, _ in REASONS} == set(Reason)


def test_there_is_something_to_check():
    """Messages are found where they are quoted."""
    assert len(QUOTED) > 20
