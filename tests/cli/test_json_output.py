"""`--json` of every command: one document that names its schema."""

import json
import re

import pytest

from adaptd.cli.reference import list_commands


def commands_with_json() -> list[tuple[str, ...]]:
    """The words of every command that has --json and needs nothing but a project."""
    return [
        words[1:]
        for words, command in list_commands()
        if any("--json" in param.opts for param in command.params) and not any(param.required for param in command.params)
    ]


def test_the_list_is_not_empty():
    """The commands that others rely on are among those that are tried."""
    wanted = {("status",), ("matrix",), ("versions",), ("fsck",), ("doctor",), ("config", "show"), ("quarantine", "list")}
    assert wanted <= set(commands_with_json())


@pytest.mark.parametrize("words", commands_with_json(), ids=" ".join)
def test_every_document_names_its_schema(adaptd, project, words):
    """An object whose first field is `schema`, also where there is nothing to tell."""
    document = json.loads(adaptd("--project", project, *words, "--json").stdout)
    assert next(iter(document)) == "schema"
    assert re.fullmatch(r"adaptd\.[a-z-]+/\d+", document["schema"])
