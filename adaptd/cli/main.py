"""`adaptd`: all commands, and how errors reach the user. Each command lives in the module of its room."""

import sys
from pathlib import Path
from typing import Annotated

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
from adaptd.cli.output import guard_streams, print_json, say
from adaptd.errors import AdaptdError, ConfigError, ExitCode

app = typer.Typer(
    name="adaptd",
    help="Keeps image classifiers good in the field: drop unlabelled images, get a proven, versioned model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("init")(project.init)
app.add_typer(learning.app, name="source")
app.command("adapt")(learning.adapt)
app.command("run")(daemon.run)
app.command("pause")(daemon.pause)
app.command("resume")(daemon.resume)
app.command("retry")(daemon.retry)
app.command("cancel")(daemon.cancel)
app.command("forget")(forget.forget)
app.command("matrix")(matrix.matrix)
app.command("status")(status.status)
app.command("explain")(explain.explain)
app.command("versions")(versions.versions)
app.command("promote")(versions.promote)
app.command("rollback")(versions.rollback)
app.command("diff")(versions.diff)
app.command("serve")(serving.serve)
app.command("predict")(serving.predict)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.command("fsck")(fsck.fsck)
app.command("gc")(gc.gc)
app.command("bench")(bench.bench)
app.command("demo")(demo.demo)
app.add_typer(labels.app, name="labels")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(config.app, name="config")
app.add_typer(database.app, name="db")


@app.callback()
def choose_project(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Option("--project", metavar="DIR", help="The project folder; default: the nearest parent with adaptd.toml."),
    ] = None,
) -> None:
    """Keeps image classifiers good in the field: drop unlabelled images, get a proven, versioned model."""
    context.obj = folder


@app.command()
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
