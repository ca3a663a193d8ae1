"""`python -m adaptd.cli.reference` prints docs/cli.md from the commands themselves. What they do lives beside this."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from adaptd.cli.main import app
from adaptd.errors import ExitCode

HEADER = """# Commands

Made from the commands by `make docs`; don't edit. `adaptd COMMAND --help` tells the same.
`adaptd --install-completion` sets up completion for your shell.
"""


def list_commands(command: Any = None, words: tuple[str, ...] = ("adaptd",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that lead to it, the whole program first."""
    command = get_command(app) if command is None else command
    yield words, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from list_commands(inner, (*words, name))


def render_page() -> str:
    """The whole page, the same on every terminal."""
    parts = [HEADER.rstrip()]
    for words, command in list_commands():
        parts += _describe(words, command)
    codes = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode)
    parts += ["## Exit codes", f"{codes}; 130 and 143 after Ctrl-C and SIGTERM where work was interrupted."]
    return "\n\n".join(parts) + "\n"


def _describe(words: tuple[str, ...], command: Any) -> Iterator[str]:
    yield f"## {' '.join(words)}"
    yield f"```text\n{_usage(words, command)}\n```"
    yield " ".join((command.help or "").split())
    inner = getattr(command, "commands", {})
    if inner:
        yield "Commands: " + ", ".join(f"[{name}](#{'-'.join([*words, name])})" for name in sorted(inner)) + "."
    shown = [param for param in command.params if not getattr(param, "hidden", False) and param.help]
    if shown:
        rows = [f"| `{_name(param)}` | {_cell(param.help)} | {_default(param)} |" for param in shown]
        yield "\n".join(["| | | default |", "| --- | --- | --- |", *rows])


def _usage(words: tuple[str, ...], command: Any) -> str:
    options = ["[OPTIONS]"] if any(_is_option(param) for param in command.params) else []
    arguments = [_name(param) for param in command.params if not _is_option(param)]
    return " ".join([*words, *options, *(["COMMAND …"] if hasattr(command, "commands") else arguments)])


def _is_option(param: Any) -> bool:
    return str(param.opts[0]).startswith("-")


def _name(param: Any) -> str:
    """An option with what follows it, or an argument as it stands in the usage."""
    value = param.metavar or ("" if getattr(param, "is_flag", False) else param.name.upper())
    if _is_option(param):
        return " ".join(filter(None, ["/".join(param.opts + param.secondary_opts), value]))
    return value if param.required or value.startswith("[") else f"[{value}]"


def _default(param: Any) -> str:
    silent = param.required or param.default is None or param.default is False or param.default == ""
    return "" if silent else f"`{param.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    typer.echo(render_page(), nl=False)
