"""`adaptd`: all commands, and how errors reach the user. Each command lives in the module of its room."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from adaptd import __version__
from adaptd.cli import (
    bench,
    config,
    daemon,
    database,
    demo,
    doctor,
    explain,
    forget,
    fsck,
    gc,
    labels,
    learning,
    matrix,
    project,
    quarantine,
    report,
    serving,
    status,
    versions,
)
from adaptd.cli.app import App, Folder
from adaptd.cli.output import guard_streams, print_json, say
from adaptd.errors import AdaptdError, ConfigError, ExitCode

_SET_UP, _LOOK, _VERSIONS, _CARE, _MORE = (
    "Begin, and bring images",
    "Look",
    "Versions, and what they are asked",
    "Ways back, and upkeep",
    "Try and compare",
)
COMMANDS: dict[str, dict[str, Callable[..., Any]]] = {
    _SET_UP: {"init": project.init, "run": daemon.run, "adapt": learning.adapt},
    _LOOK: {"status": status.status, "matrix": matrix.matrix, "explain": explain.explain, "report": report.report},
    _VERSIONS: {
        "versions": versions.versions,
        "diff": versions.diff,
        "promote": versions.promote,
        "rollback": versions.rollback,
        "serve": serving.serve,
        "predict": serving.predict,
    },
    _CARE: {
        "pause": daemon.pause,
        "resume": daemon.resume,
        "retry": daemon.retry,
        "cancel": daemon.cancel,
        "forget": forget.forget,
        "doctor": doctor.doctor,
        "fsck": fsck.fsck,
        "gc": gc.gc,
    },
    _MORE: {"demo": demo.demo, "bench": bench.bench},
}
"""By the heading under which `adaptd --help` lists them."""

app = App(
    "Keeps image classifiers good in the field: drop unlabelled images, get a proven, versioned model.",
    name="adaptd",
    pretty_exceptions_enable=False,
)
app.add_typer(learning.app, name="source", rich_help_panel=_SET_UP)
for heading, commands in COMMANDS.items():
    for word, function in commands.items():
        app.command(word, rich_help_panel=heading)(function)
app.add_typer(labels.app, name="labels", rich_help_panel=_SET_UP)
app.add_typer(quarantine.app, name="quarantine", rich_help_panel=_CARE)
app.add_typer(config.app, name="config", rich_help_panel=_CARE)
app.add_typer(database.app, name="db", rich_help_panel=_CARE)


def _tell_version(wanted: bool) -> None:
    if wanted:
        say(f"adaptd {__version__}")
        raise typer.Exit


@app.callback()
def choose_project(
    context: typer.Context,
    folder: Folder = None,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Print adaptd's version and exit.")
    ] = False,
) -> None:
    """Keeps image classifiers good in the field: drop unlabelled images, get a proven, versioned model."""
    context.obj = folder


@app.command(rich_help_panel=_MORE)
def version(as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False) -> None:
    """Print adaptd's version."""
    if as_json:
        print_json("adaptd.version/1", {"version": __version__})
    else:
        say(f"adaptd {__version__}")


def main() -> None:
    """Run a command; an expected error becomes one message and its exit code, never a traceback."""
    guard_streams()
    try:
        app()
    except AdaptdError as problem:
        # Only what is wrong with the settings comes in several lines, and those are the user's own.
        lines = str(problem).split("\n") if isinstance(problem, ConfigError) else [str(problem)]
        say(f"adaptd: {lines[0]}", *lines[1:], err=True)
        sys.exit(problem.exit_code)
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        say(
            f"adaptd: {where}{problem.strerror or problem}; check that it exists, may be read and written, and has room", err=True
        )
        sys.exit(ExitCode.FAILURE)


if __name__ == "__main__":
    main()
