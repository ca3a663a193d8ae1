"""`adaptd status`: what it is doing, how far, how good, what is served. Works while the daemon is stopped."""

import gc
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptd.cli.output import make_console, print_json
from adaptd.cli.project import open_project, open_store
from adaptd.errors import ExitCode
from adaptd.pace import tell_duration
from adaptd.records import IMAGES_SEEN, IMAGES_TO_SEE
from adaptd.text import make_visible, tell_count, tell_moment

if TYPE_CHECKING:
    from rich.console import RenderableType

    from adaptd.project.layers import Project
    from adaptd.store import Store

QUEUE_SHOWN = 10
DOMAINS_SHOWN = 8


def status(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable; docs/schemas/status.json describes it.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second until Ctrl-C.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 3 where the daemon does not run, 4 where it is degraded.")
    ] = False,
) -> None:
    """Show the daemon, the queue, the running episode, what is served and how good it is."""
    # Start-up makes many objects that stay: looking for garbage among them would take a tenth of it.
    gc.disable()
    from adaptd.observe.status import read_status

    project = open_project(context)
    with open_store(project) as store:
        document = read_status(project, store)
        if as_json:
            from adaptd.observe.status import SCHEMA

            print_json(SCHEMA, document)
        elif watch and make_console().is_terminal:
            _watch(project, store)
        else:
            make_console().print(render(document))
    if exit_code and document["daemon"]["state"] in {"stopped", "degraded"}:
        raise typer.Exit(ExitCode.NOT_RUNNING if document["daemon"]["state"] == "stopped" else ExitCode.DEGRADED)


def _watch(project: "Project", store: "Store") -> None:
    from rich.live import Live

    from adaptd.observe.status import read_status

    gc.enable()
    try:
        with Live(console=make_console(), auto_refresh=False, screen=True) as live:
            while True:
                live.update(render(read_status(project, store)), refresh=True)
                time.sleep(1)
    except KeyboardInterrupt:
        return


def render(document: dict[str, Any]) -> "RenderableType":
    """One screen for a person."""
    from rich.console import Group
    from rich.markup import escape

    document = make_visible(document)
    parts = [_headline(document), _queue(document["queue"])]
    parts += [f"[yellow]! {escape(warning)}[/]" for warning in document["daemon"]["warnings"]]
    return Group(*(part for part in parts if part is not None))


def _headline(document: dict[str, Any]) -> str:
    from rich.markup import escape

    daemon, served, episode = document["daemon"], document["served"], document["episode"]
    process = f"running as {daemon['pid']}, {daemon['state']}" if daemon["running"] else "not running"
    if daemon["pid"] and not daemon["running"]:
        process = f"not running; adaptd {daemon['command']} works as {daemon['pid']}"
    pages = [f"pages    {daemon['address']}"] if daemon["running"] and daemon["address"] else []
    serving = f"version {served['version']} since {tell_moment(served['promoted_at'])}" if served else "nothing promoted yet"
    lines = [
        f"[bold]{document['model']}[/] in {escape(document['project'])}",
        f"daemon   {process}",
        *pages,
        f"serves   {serving}",
        *_accuracies(served),
        *_gate(served),
    ]
    if episode:
        eta = "" if episode["eta_seconds"] is None else f", about {tell_duration(episode['eta_seconds'])} left"
        done = f"{episode['phase']} {episode['step']}/{episode['steps']} ({episode['progress']:.0%}{eta})"
        if IMAGES_SEEN in episode["live"]:
            done += f", {episode['live'][IMAGES_SEEN]:,} of {episode['live'][IMAGES_TO_SEE]:,} images seen"
        lines.append(f"episode  {episode['number']} on {escape(episode['domain'])}: {done}")
        lines += [f"         {live}"] if (live := _live(episode["live"])) else []
        lines += [f"         {escape(episode['novelty'])}"] if episode["novelty"] else []
    return "\n".join(lines)


def _gate(served: dict[str, Any] | None) -> list[str]:
    """Why the gate let it pass, or who overruled it."""
    from rich.markup import escape

    if served is None or served["gate"] is None:
        return []
    said = [f"overruled: {served['forced_because']}"] if served["forced_because"] else served["gate"]["reasons"]
    return [f"{'gate     ' if place == 0 else '         '}{escape(text)}" for place, text in enumerate(said)]


def _live(live: dict[str, Any]) -> str:
    """The newest step's losses and multipliers, and the newest look's health."""
    losses = [f"{name} loss {value:.3f}" for name, value in live.get("losses", {}).items()]
    losses += [f"{name} {value:.2f}" for name, value in live.get("health", {}).items()]
    return ", ".join([*losses, *(f"λ {name} {value:.3f}" for name, value in live.get("multipliers", {}).items())])


def _queue(queue: list[dict[str, Any]]) -> "RenderableType":
    from rich.markup import escape
    from rich.table import Table

    if not queue:
        return "queue    empty: drop a folder of images into the inbox, or `adaptd adapt DIR`"
    table = Table(box=None, pad_edge=False)
    for title in ("domain", "state", "images", "quarantined", ""):
        table.add_column(
            title, justify="right" if title in {"images", "quarantined"} else "left", style="dim" if title == "state" else ""
        )
    for item in queue[-QUEUE_SHOWN:]:
        why = escape(item["reason"] or "")
        table.add_row(escape(item["domain"]), item["state"], f"{item['images']:,}", f"{item['quarantined']:,}", f"[dim]{why}[/]")
    if len(queue) > QUEUE_SHOWN:
        table.caption = f"the newest {QUEUE_SHOWN} of {len(queue)}"
    return table


def _accuracies(served: dict[str, Any] | None) -> list[str]:
    """How good the promoted version is, each accuracy with the word that says how it is known; means of each kind apart."""
    from rich.markup import escape

    found = list(served["accuracies"].items()) if served is not None else []
    lines = [f"         {escape(name)} {_accuracy(**accuracy)}" for name, accuracy in found[:1] + found[1:][-DOMAINS_SHOWN:]]
    for kind in ("measured", "estimated"):
        values = [accuracy["value"] for _, accuracy in found if accuracy["kind"] == kind]
        lines += [f"         mean of {len(values)} {kind}: {sum(values) / len(values):.1%}"] if len(values) > 1 else []
    return lines


def _accuracy(value: float, kind: str, n: int, low: float | None, high: float | None, held_out: bool) -> str:
    """`estimated 71.0% (58–83%) on 40 images`."""
    from adaptd.evaluation.matrix import format_interval

    images = tell_count(n, "image") + ("" if kind == "measured" or held_out else " it learned from")
    return f"{kind} {value:.1%}{format_interval(low, high, '%')} on {images}"
