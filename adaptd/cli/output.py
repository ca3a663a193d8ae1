"""How commands print: JSON with its schema's name, or rich renderables that behave off a terminal."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from adaptd.text import is_hidden

if TYPE_CHECKING:
    from rich.console import Console


def print_json(schema: str, document: Mapping[str, Any]) -> None:
    """One JSON document, with `schema` as its first field."""
    typer.echo(json.dumps({"schema": schema, **document}, indent=2, ensure_ascii=False))


def make_console() -> "Console":
    """Standard output; rich honours NO_COLOR and drops styles and animation off a terminal."""
    from rich.console import Console

    return Console(highlight=False)


def one_line(text: str) -> str:
    """Text from outside as a terminal may see it: line breaks, control characters and marks of direction as escapes."""
    return "".join(_escape(sign) if is_hidden(sign) else sign for sign in text)


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")
