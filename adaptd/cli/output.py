"""How commands print: JSON with its schema's name, or rich renderables that behave off a terminal."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def print_json(schema: str, document: Mapping[str, Any]) -> None:
    """One JSON document, with `schema` as its first field."""
    typer.echo(json.dumps({"schema": schema, **document}, indent=2, ensure_ascii=False))


def make_console() -> "Console":
    """Standard output; rich honours NO_COLOR and leaves styles and animation out off a terminal."""
    from rich.console import Console

    return Console(highlight=False)
