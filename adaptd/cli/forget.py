"""`adaptd forget DOMAIN`: says what goes and what stays, asks, and has it forgotten."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from adaptd.cli.gc import confirm
from adaptd.cli.output import say
from adaptd.cli.project import open_project, open_store
from adaptd.errors import EpisodeError, ExitCode

if TYPE_CHECKING:
    from adaptd.project.layers import Project
    from adaptd.store import Store


def forget(
    context: typer.Context,
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="Its name; `adaptd status` lists them.")],
    originals: Annotated[
        bool, typer.Option("--originals", help="Delete its original files too; not while the daemon runs.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Without asking.")] = False,
) -> None:
    """Forget a domain: its memory, its given labels and its place in later episodes. Its originals are kept, unless told.

    R keeps its column as history. Versions that learned from it are named and stay as they are: going back behind them is
    `rollback`. Killed in between, the same command goes on.
    """
    from adaptd.project.lock import hold_project
    from adaptd.releases.forgetting import forget_domain, look_ahead

    project = open_project(context)
    with open_store(project) as store:
        with store.reading() as tx:
            prospect = look_ahead(tx, project.state, domain)
        if prospect.is_forgotten and not originals:
            raise EpisodeError(f"{domain} is forgotten already; --originals deletes its original files too")
        say(*prospect.tell())
        confirm(f"forget {domain}" + (" and delete its originals for good" if originals else ""), yes)
        with hold_project(project.state, "forget") if originals else nullcontext():
            left = _delete_originals(project, store, domain) if originals else ()
            say(forget_domain(store, project.state, domain))
    say(*left, err=True)
    if left:
        raise typer.Exit(ExitCode.FAILURE)


def _delete_originals(project: "Project", store: "Store", name: str) -> tuple[str, ...]:
    """What of them is left, and why."""
    from adaptd.care.gc import delete, plan_originals
    from adaptd.care.view import View
    from adaptd.project.layout import Layout

    with store.reading() as tx:
        view, domain = View.read(tx), tx.domains.get_named(name)
    layout = Layout(project.state)
    planned = plan_originals(view, layout, domain.id)
    paths = {path for deletable in planned for path in deletable.paths}
    mine = (layout.state / drop.path for drop in view.drops if drop.domain_id == domain.id)
    unseen = [path for path in mine if path.is_dir() and path not in paths]
    return (*delete(store, planned), *(f"{path} stays: it is yours, or has files that no import has seen" for path in unseen))
