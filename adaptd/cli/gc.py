"""`adaptd gc`: what may be deleted and how much it frees; deleting it once a person has said so."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from adaptd.cli.output import print_json, say
from adaptd.cli.project import open_project, open_store
from adaptd.errors import ExitCode, NotConfirmed
from adaptd.text import escape_hidden, printable

if TYPE_CHECKING:
    from adaptd.care.gc import Deletable, Wish
    from adaptd.project.layers import Project
    from adaptd.store import Store


def gc(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show; works while the daemon does.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    originals: Annotated[
        bool,
        typer.Option("--originals", help="Also original files of finished deliveries: they are only needed to decode again."),
    ] = False,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="Also weights of rejected versions before the promoted one.")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Also images of failed and cancelled domains.")] = False,
    budget: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=0, help="Also the oldest originals beyond this size; default: retention.state_bytes."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show what may be deleted in the state folder and why, ask, and delete it."""
    from adaptd.care.gc import Wish
    from adaptd.project.lock import hold_project

    project = open_project(context)
    wish = Wish(originals, rejected, failed, project.settings.retention.state_bytes if budget is None else budget)
    with open_store(project) as store:
        with nullcontext() if dry_run else hold_project(project.state, "gc"):
            deletables = _plan(project, store, wish)
        _show(project, deletables, as_json)
        if dry_run or not deletables:
            return
        confirm("delete all of this", yes)
        # The lock is not held while a person thinks: what has changed since is looked at again.
        with hold_project(project.state, "gc"):
            shown = {deletable.paths for deletable in deletables}
            _delete(store, [deletable for deletable in _plan(project, store, wish) if deletable.paths in shown])


def confirm(what: str, yes: bool) -> None:
    """Go on only with --yes, or where a person at a terminal agrees."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise NotConfirmed(f"nobody is here to ask, so nothing was done: give --yes to {what}")
    if not typer.confirm(f"{what}?", err=True):
        raise NotConfirmed("nothing was done")


def _plan(project: "Project", store: "Store", wish: "Wish") -> "tuple[Deletable, ...]":
    from adaptd.care.gc import plan
    from adaptd.care.view import View

    with store.reading() as tx:
        view = View.read(tx, with_images=wish.originals or wish.failed or bool(wish.budget_bytes))
    return plan(view, project, wish)


def _delete(store: "Store", deletables: "list[Deletable]") -> None:
    from adaptd.care.gc import delete

    left = delete(store, deletables)
    say(*(f"adaptd: {sentence}" for sentence in left), err=True)
    if left:
        raise typer.Exit(ExitCode.FAILURE)
    say(f"deleted, {decimal(sum(deletable.size_bytes for deletable in deletables))} freed", err=True)


def _show(project: "Project", deletables: "tuple[Deletable, ...]", as_json: bool) -> None:
    total = sum(deletable.size_bytes for deletable in deletables)
    if as_json:
        items = [
            {
                "kind": deletable.kind,
                "paths": [_inside(project.state, path) for path in deletable.paths],
                "size_bytes": deletable.size_bytes,
                "reason": deletable.reason,
            }
            for deletable in deletables
        ]
        print_json("adaptd.gc/1", {"size_bytes": total, "candidates": items})
        return
    for deletable in deletables:
        where = escape_hidden(", ".join(_inside(project.state, path) for path in deletable.paths))
        say(f"{decimal(deletable.size_bytes):>9}  {deletable.kind:10} {where}")
        say(f"{'':23}{escape_hidden(deletable.reason)}")
    say(f"{decimal(total)} can be freed" if deletables else "nothing to delete")


def _inside(state: Path, path: Path) -> str:
    return printable(path.relative_to(state))
