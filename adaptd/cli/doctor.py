"""`adaptd doctor`: what is wrong on this machine and what to do about it."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from adaptd.cli.output import make_console, print_json
from adaptd.cli.project import open_project, open_store
from adaptd.errors import AdaptdError, ExitCode
from adaptd.text import escape_hidden

if TYPE_CHECKING:
    from adaptd.observe.doctor import Finding
    from adaptd.project.layers import Project

MARKS = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "fail": "[red]fail[/]"}


def doctor(context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False) -> None:
    """Check everything that can be wrong on this machine; exit 1 where something must be mended."""
    from adaptd.observe.doctor import examine

    project = open_project(context)
    findings = [*examine(project), *_store(project)]
    if as_json:
        print_json("adaptd.doctor/1", {"findings": [asdict(finding) for finding in findings]})
    else:
        _show(findings)
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(ExitCode.FAILURE)


def _store(project: "Project") -> "Iterator[Finding]":
    """What the database says: whether it opens, and whether there is a version to serve and to adapt from."""
    from adaptd.observe.doctor import Finding, check_promoted

    try:
        with open_store(project) as store, store.reading() as tx:
            promoted = check_promoted(tx)
    except AdaptdError as problem:
        fact, _, remedy = str(problem).partition(": run ")
        yield Finding("database", "fail", fact, f"run {remedy}" if remedy else "see the message")
        return
    yield Finding("database", "ok", "opens, and has this adaptd's revision")
    yield promoted


def _show(findings: "list[Finding]") -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        remedy = f"\n[bold]→ {escape(escape_hidden(finding.remedy))}[/]" if finding.remedy else ""
        table.add_row(MARKS[finding.level], finding.name, escape(escape_hidden(finding.fact)) + remedy)
    console = make_console()
    console.print(table)
    worst = [sum(finding.level == level for finding in findings) for level in ("fail", "warn")]
    console.print(f"{worst[0]} to mend, {worst[1]} to know about")
