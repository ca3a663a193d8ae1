"""`adaptd matrix`: R, who is good at what after each episode."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptd.cli.output import make_console, print_json, say
from adaptd.cli.project import open_project, open_store
from adaptd.errors import NothingToLearn
from adaptd.text import escape_hidden, tell_count

CAPTION = "~ estimated, without labels, with its range; ! on images that were learned from: it flatters"
DOMAINS_SHOWN = 8
EMPTY = "R is empty: run `adaptd source import DIR` first"

if TYPE_CHECKING:
    from rich.console import RenderableType

    from adaptd.evaluation.matrix import Entry, Matrix
    from adaptd.evaluation.metrics import Metrics


def matrix(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="A line for each entry.")] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw a heat map and each domain's evolution.")] = None,
) -> None:
    """Show R[t, j], the accuracy on domain j after episode t, with ACC, BWT, FWT and forgetting."""
    from adaptd.evaluation.metrics import summarize
    from adaptd.releases.matrix import read_matrix

    if as_json and as_csv:
        raise typer.BadParameter("choose --json or --csv, not both")
    project = open_project(context)
    with open_store(project) as store, store.reading() as tx:
        found = read_matrix(tx)
    if plot is not None:
        if not found.rows:
            raise NothingToLearn(EMPTY)
        from adaptd.evaluation.plots import plot_matrix

        plot_matrix(found, plot, project.settings.model.name)
        say(f"drew {plot}", err=True)
    if as_json:
        print_json("adaptd.matrix/1", found.to_json() | {"metrics": summarize(found).to_json()})
    elif as_csv:
        say(*found.to_csv().rstrip("\n").split("\n"))
    else:
        make_console().print(render_matrix(found))


def render_matrix(found: "Matrix") -> "RenderableType":
    """R as a table, its metrics below."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    from adaptd.evaluation.metrics import summarize

    if not found.rows:
        return EMPTY
    table = Table(title="R: accuracy after each episode, %", title_justify="left", caption=CAPTION)
    table.add_column("episode", justify="right")
    for name in found.domains:
        mark = " (forgotten)" if name in found.forgotten else ""
        table.add_column(escape(escape_hidden(name)) + mark, justify="right")
    for episode, row in zip(found.episodes, found.rows, strict=True):
        table.add_row(str(episode), *map(_cell, row))
    return Group(table, _totals(summarize(found)), escape(_tell_images(found)))


def _cell(entry: "Entry | None") -> str:
    from adaptd.evaluation.matrix import format_interval

    if entry is None:
        return "·"
    mark = "~" if entry.kind == "estimated" else ""
    return f"{mark}{entry.value * 100:.1f}{format_interval(entry.low, entry.high)}{'!' if entry.is_on_own_ground else ''}"


def _tell_images(found: "Matrix") -> str:
    """On how many images the newest row stands; of very many domains the newest."""
    known = [(name, entry.n) for name, entry in zip(found.domains, found.last, strict=True) if entry is not None and entry.n]
    told = [f"{escape_hidden(name)} on {tell_count(n, 'image')}" for name, n in known[:1] + known[1:][-DOMAINS_SHOWN:]]
    return f"episode {found.episodes[-1]}: {', '.join(told)}" if told else ""


def _totals(metrics: "Metrics") -> str:
    named = {"ACC": metrics.acc, "ACC_targets": metrics.acc_targets, "BWT": metrics.bwt, "FWT": metrics.fwt}
    shown = [
        f"{name} {value * 100:{'+' if name in {'BWT', 'FWT'} else ''}.1f}" for name, value in named.items() if value is not None
    ]
    kinds = f"ACC is the mean of {metrics.acc_measured} measured and {metrics.acc_estimated} estimated accuracies"
    return "\n".join(["   ".join(shown), *([kinds] if metrics.acc is not None else [])])
