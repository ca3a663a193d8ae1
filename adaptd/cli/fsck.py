"""`adaptd fsck`: whether everything that must always hold does. Reads only, also while the daemon works."""

from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from adaptd.cli.output import print_json, say
from adaptd.cli.progress import progress_bar
from adaptd.cli.project import open_project
from adaptd.errors import ExitCode

if TYPE_CHECKING:
    from adaptd.care.view import Finding


def fsck(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Also read every original file and every decoded image.")] = False,
) -> None:
    """Check files, versions, R and the database against each other; exit 1 where something does not hold."""
    from adaptd.care.fsck import check_project

    project = open_project(context)
    with progress_bar("reading images") if deep else nullcontext() as show:
        findings = check_project(project, show)
    if as_json:
        print_json("adaptd.fsck/1", {"clean": not findings, "findings": [asdict(finding) for finding in findings]})
    else:
        _show(findings)
    if findings:
        raise typer.Exit(ExitCode.FAILURE)


def _show(findings: "tuple[Finding, ...]") -> None:
    for finding in findings:
        say(f"{finding.invariant}  {finding.what}", f"    → {finding.repair}")
    say(f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" if findings else "clean")
