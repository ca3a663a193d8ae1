"""`adaptd versions`, `promote`, `rollback` and `diff`: what was published, what is served, and a person's word about it."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptd.cli.output import make_console, print_json, say
from adaptd.cli.project import open_project, open_store
from adaptd.errors import PublishError
from adaptd.text import escape_hidden, make_visible

if TYPE_CHECKING:
    from adaptd.project.layers import Project
    from adaptd.releases.difference import Difference
    from adaptd.store import Store

Json = Annotated[bool, typer.Option("--json", help="Machine-readable.")]
Number = Annotated[int, typer.Argument(metavar="N", min=1, help="The version's number.")]


def versions(context: typer.Context, as_json: Json = False) -> None:
    """List every version: what it came of, what the gate said, whether it is served."""
    from adaptd.observe.version_list import SCHEMA, describe_versions

    project = open_project(context)
    with open_store(project) as store, store.reading() as tx:
        found = describe_versions(tx, project.models)
    if as_json:
        print_json(SCHEMA, {"versions": found})
        return
    if not found:
        say("no version yet: adaptd source import DIR makes the first")
        return
    _show_versions(found)


def promote(
    context: typer.Context,
    number: Number,
    force: Annotated[bool, typer.Option("--force", help="Also where the gate refuses it; needs --why.")] = False,
    why: Annotated[str, typer.Option("--why", metavar="REASON", help="Kept with the version.")] = "",
) -> None:
    """Make a version the one that is served. An old one comes back as the next number."""
    from adaptd.releases.promotion import promote as promote_version

    if force and not why.strip():
        raise typer.BadParameter("say why, for those who come after you: --force --why REASON", param_hint="--force")
    project = open_project(context)
    with open_store(project) as store:
        version = promote_version(project, store, number, why.strip() if force else None)
    say(f"version {version.version} is promoted" + (f": the weights of version {number}" if version.restores else ""))


def rollback(
    context: typer.Context,
    number: Annotated[
        int | None, typer.Argument(metavar="[N]", min=1, help="The version to go back to; default: the one before.")
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Also forget the domains whose memory the undone episodes left; originals are kept.")
    ] = False,
) -> None:
    """Go back to the version before, or to version N. Its weights are published as the next number.

    What the undone episodes remembered of their domains, pseudo-labels that may be wrong, goes on being replayed in the next
    episodes, unless these domains are forgotten.
    """
    from adaptd.releases.promotion import roll_back

    project = open_project(context)
    with open_store(project) as store:
        version = roll_back(project, store, number)
        say(f"version {version.version} is promoted: the weights of version {version.restores}")
        _tell_undone(project, store, forget=forget)


def _tell_undone(project: "Project", store: "Store", *, forget: bool) -> None:
    """Forget what undone episodes remember, or say how."""
    from adaptd.releases.forgetting import forget_domain
    from adaptd.releases.lineage import find_undone

    with store.reading() as tx:
        undone = find_undone(tx.versions.list_all(), tx.episodes.list_all())
        names = [tx.domains.get(key).name for key in undone]
    for name in names:
        if forget:
            say(forget_domain(store, project.state, name))
        else:
            say(f"what is remembered of {name} comes from an undone episode: `adaptd forget {quote(name)}` lets it go", err=True)


def diff(
    context: typer.Context,
    before: Annotated[int, typer.Argument(metavar="A", min=1, help="A version.")],
    after: Annotated[int, typer.Argument(metavar="B", min=1, help="Another version.")],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw images that the two see differently.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what changed between two versions: accuracies, flips, and which images."""
    from adaptd.releases.difference import find_difference

    if before == after:
        raise PublishError(f"version {before} does not differ from itself: give two versions")
    project = open_project(context)
    with open_store(project) as store:
        difference = find_difference(project, store, before, after)
    if plot is not None:
        from adaptd.evaluation.plots import plot_flips

        plot_flips(difference.examples, plot)
        say(f"wrote {plot}", err=True)
    if as_json:
        print_json("adaptd.diff/1", difference.to_json())
    else:
        _show_difference(difference)


def _show_versions(found: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("version", "state", "parent", "episode", "domain", "gate"):
        table.add_column(title, justify="right" if title in {"version", "parent", "episode"} else "left")
    for item in make_visible(found):
        gate = item["gate"] or {"passed": None, "reasons": ["not judged"]}
        state = f"[bold green]{item['state']}, served[/]" if item["served"] else item["state"]
        origin = f" (restores {item['restores']})" if item["restores"] else ""
        first, *more = gate["reasons"] or ["no reason was kept"]
        said = item["forced_because"] or first + (f" (and {len(more)} more: adaptd explain)" if more else "")
        table.add_row(
            str(item["version"]),
            state,
            str(item["parent"] or "–"),
            str(item["episode"]),
            escape(item["domain"]),
            escape(said + origin),
        )
    make_console().print(table)


def _show_difference(difference: "Difference") -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"version {difference.before} → {difference.after}", title_justify="left")
    for title in ("domain", "images", "before", "after", "better", "worse", "other"):
        table.add_column(title, justify="left" if title == "domain" else "right")
    for row in difference.rows:
        accuracies = [f"{value:.1%} {row.kind}" if value is not None else "–" for value in (row.before, row.after)]
        table.add_row(
            escape(escape_hidden(row.domain)),
            f"{row.n:,}",
            *accuracies,
            *("–" if n is None else str(n) for n in (row.better, row.worse, row.other)),
        )
    make_console().print(table)
    for example in difference.examples:
        truth = f", truth {example.label}" if example.label else ""
        say(f"{example.domain}/{example.name}: {example.before} → {example.after}{truth}")
