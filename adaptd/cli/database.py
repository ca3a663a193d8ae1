"""`adaptd db`: bring the store to this adaptd's revision, back it up, check it."""

from pathlib import Path
from typing import Annotated

import typer

from adaptd.cli.app import App
from adaptd.cli.output import print_json, say
from adaptd.cli.project import backups, open_project
from adaptd.errors import ExitCode

app = App("Upgrade, back up and check the database.")


@app.command()
def upgrade(context: typer.Context) -> None:
    """Create the database or bring it to this adaptd's revision; a SQLite file is backed up first."""
    from adaptd.store import migrate
    from adaptd.store.schema import HEAD

    project = open_project(context)
    backup_file = migrate.upgrade(project.database, backups(project))
    if backup_file:
        say(f"backed up to {backup_file}")
    say(f"database is at revision {HEAD}")


@app.command()
def backup(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; default: state/backups.")] = None,
) -> None:
    """Copy a SQLite database, also while the daemon runs."""
    from adaptd.store import migrate

    project = open_project(context)
    say(f"backed up to {migrate.backup(project.database, out or backups(project))}")


@app.command()
def check(context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False) -> None:
    """Check schema, integrity and references; exit 1 where something is wrong."""
    from adaptd.store import migrate

    findings = migrate.check(open_project(context).database)
    if as_json:
        print_json("adaptd.db-check/1", {"clean": not findings, "findings": findings})
    else:
        say(*(findings or ["database is clean"]))
    if findings:
        raise typer.Exit(ExitCode.FAILURE)
