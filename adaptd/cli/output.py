"""How commands print: lines, JSON with its schema's name, or rich renderables that behave off a terminal.

No character of a name reaches a terminal that the terminal would obey: `say` and `make_visible` spell out what is hidden in a
value, line breaks too, and the streams themselves what came past them.
"""

import json
import re
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import typer

from adaptd.text import escape_hidden, escape_json

if TYPE_CHECKING:
    from rich.console import Console

_OWN = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|[\r\n])")
"""What rich writes to a terminal: colours, the cursor, lines."""


class VisibleStream(TextIOWrapper):
    """A stream of text that shows hidden characters as escapes; off a terminal every one but the ends of lines."""

    def write(self, text: str) -> int:
        """As usual."""
        pieces = _OWN.split(text) if self.isatty() else re.split("(\n)", text)
        return super().write("".join(piece if place % 2 else escape_hidden(piece) for place, piece in enumerate(pieces)))


def guard_streams() -> None:
    """Make standard output and error show what is hidden; one without arrows or umlauts gets question marks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):  # None where the caller closed it
            encoding, buffered = stream.encoding, stream.line_buffering
            setattr(sys, name, VisibleStream(stream.detach(), encoding, "replace", line_buffering=buffered))


def say(*lines: str, err: bool = False, bold: bool = False) -> None:
    """Lines for a person; no name in them makes another one."""
    for line in lines:
        typer.secho(escape_hidden(line), err=err, bold=bold or None)


def print_json(schema: str, document: Mapping[str, Any]) -> None:
    """One JSON document, with `schema` as its first field."""
    typer.echo(escape_json(json.dumps({"schema": schema, **document}, indent=2, ensure_ascii=False)))


def make_console() -> "Console":
    """Standard output; rich honours NO_COLOR and leaves styles and animation out off a terminal."""
    from rich.console import Console

    return Console(highlight=False)
