"""`python -m adaptd.cli.configuration` prints docs/configuration.md from the settings. The settings live in `settings`."""

import json
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from adaptd.project.catalogue import ENV_PREFIX, list_keys, sections
from adaptd.project.reload import FIXED
from adaptd.sections import IN_WORDS

HEADER = """# Settings

Made from the settings by `make docs`; don't edit. They stand in a project's `adaptd.toml`, which `adaptd init` writes with
what differs from the defaults and every other key as a comment. Strongest first: options of a command, environment variables, the
file, the defaults.
`adaptd config show --origin` tells where each value comes from, `adaptd config check` whether they hold. An unknown key is an
error that names the nearest one.

Commands read the settings when they start. `kill -HUP` makes the daemon read them again; below each heading stands when it takes
a change over. An episode keeps the settings it was queued with.
"""

READ_BY = {
    "source": "the next `adaptd source import`",
    "retention": "the next `adaptd gc`",
    "serving": "the next start of `adaptd serve`",
}
"""Sections that the daemon has no use for."""

UNITS = {"_seconds": "seconds", "_bytes": "bytes", "_pixels": "pixels"}
TYPES = {int: "whole number", float: "number", bool: "true or false", str: "text"}


def render_page() -> str:
    """The whole page."""
    parts = [HEADER.rstrip()]
    for name, section in sections().items():
        parts += [f"## [{name}]", f"{' '.join((section.__doc__ or '').split())} Takes effect: {_takes_effect(name)}."]
        rows = [f"| {' | '.join(_row(name, key, field))} |" for key, field in list_keys(section).items()]
        head = ["| key | default | may be | means | variable |", "| --- | --- | --- | --- | --- |"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts) + "\n"


def _takes_effect(section: str) -> str:
    section = section.partition(".")[0]
    if section in READ_BY:
        return READ_BY[section]
    return "the next start of `adaptd run`" if section in FIXED else "SIGHUP, or the next start of `adaptd run`"


def _row(section: str, key: str, field: FieldInfo) -> Iterator[str]:
    yield f"`{key}`"
    yield f"`{json.dumps(field.default, ensure_ascii=False)}`"
    yield _allowed(key, field).replace("|", "\\|")
    yield (field.description or "").replace("|", "\\|")
    yield f"`{ENV_PREFIX}{section.replace('.', '__').upper()}__{key.upper()}`"


def _allowed(key: str, field: FieldInfo) -> str:
    """Type, unit and range in words."""
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(field.annotation))
    if get_origin(field.annotation) is tuple:
        values = get_args(field.annotation)
        return "list of texts" if Ellipsis in values else f"list of {len(values)} numbers"
    assert isinstance(field.annotation, type)
    unit = next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "")
    pattern = next((rule.pattern for rule in field.metadata if getattr(rule, "pattern", None)), "")
    parts = [unit or TYPES[field.annotation], _range(field.metadata), IN_WORDS[pattern] if pattern else ""]
    return ", ".join(filter(None, parts))


def _range(rules: list[Any]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [f"{sign} {getattr(rule, name)}" for rule in rules for name, sign in signs.items() if hasattr(rule, name)]
    return " and ".join(found)


if __name__ == "__main__":
    typer.echo(render_page(), nl=False)
