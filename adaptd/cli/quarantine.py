"""`adaptd quarantine`: which files cannot be used and why; giving them back to the inbox, or deleting them."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from adaptd.cli.app import App
from adaptd.cli.gc import confirm
from adaptd.cli.output import make_console, print_json, say
from adaptd.cli.project import open_project, open_store
from adaptd.errors import ExitCode, StoreConflict
from adaptd.records import Quarantined
from adaptd.text import escape_hidden, to_iso

if TYPE_CHECKING:
    from adaptd.store import Store, Transaction

app = App("Files that cannot be used.")

Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID…]", help="Which files; `quarantine list` shows their ids.")]
InDomain = Annotated[str | None, typer.Option("--domain", metavar="DOMAIN", help="All files of a domain.")]
ForReason = Annotated[str | None, typer.Option("--reason", metavar="REASON", help="All files quarantined for a reason.")]


@app.command("list")
def list_files(
    context: typer.Context,
    domain: Annotated[str | None, typer.Argument(help="Only this domain's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show what is in quarantine, with the reasons."""
    with open_store(open_project(context)) as store, store.reading() as tx:
        names = {item.id: item.name for item in tx.domains.list_all()}
        items = _list(tx, domain)
    reasons = dict(Counter(item.reason for item in items).most_common())
    if as_json:
        print_json("adaptd.quarantine/1", {"reasons": reasons, "files": [_document(item, names) for item in items]})
    else:
        _show(items, names, reasons)


@app.command()
def restore(context: typer.Context, ids: Ids = None, domain: InDomain = None, reason: ForReason = None) -> None:
    """Move files back into the inbox: they come as the next delivery of their domain."""
    from adaptd.care.restore import finish_interrupted, give_back
    from adaptd.project.layout import Layout

    project = open_project(context)
    layout = Layout(project.state)
    with open_store(project) as store:
        _tell_troubles(finish_interrupted(store, layout, project.inbox))
        chosen, kept = _choose(store, ids, domain, reason)
        for item_id, path in give_back(store, layout, project.inbox, chosen).items():
            say(f"{item_id}: {'was gone, forgotten' if path is None else path}")
    _tell(kept)


@app.command()
def purge(
    context: typer.Context,
    ids: Ids = None,
    domain: InDomain = None,
    reason: ForReason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
) -> None:
    """Delete quarantined files for good."""
    from adaptd.care.restore import delete, finish_interrupted
    from adaptd.project.layout import Layout

    project = open_project(context)
    layout = Layout(project.state)
    with open_store(project) as store:
        _tell_troubles(finish_interrupted(store, layout, project.inbox))
        chosen, kept = _choose(store, ids, domain, reason)
        if chosen:
            confirm(f"delete {len(chosen)} files for good", yes)
            delete(store, layout, chosen)
            say(f"deleted {len(chosen)} files")
    _tell(kept)


def _tell_troubles(troubles: tuple[str, ...]) -> None:
    for trouble in troubles:
        say(trouble, err=True)


def _choose(
    store: "Store", ids: list[int] | None, domain: str | None, reason: str | None
) -> tuple[list[Quarantined], list[tuple[Quarantined, str]]]:
    """The files that are meant, and those of them that must stay, with the reason."""
    from adaptd.care.restore import find_obstacle

    if not (ids or domain or reason):
        raise typer.BadParameter("give ids, --domain or --reason")
    with store.reading() as tx:
        items = _list(tx, domain)
    unknown = sorted(set(ids or ()) - {item.id for item in items})
    if unknown:
        raise StoreConflict(f"there is no file {unknown[0]} in quarantine: see `adaptd quarantine list`")
    meant = [item for item in items if (not ids or item.id in ids) and reason in {None, item.reason}]
    answers = [(item, find_obstacle(item)) for item in meant]
    return [item for item, why in answers if why is None], [(item, why) for item, why in answers if why is not None]


def _list(tx: "Transaction", domain: str | None) -> tuple[Quarantined, ...]:
    return tx.quarantine.list_all(None if domain is None else tx.domains.get_named(domain).id)


def _tell(kept: list[tuple[Quarantined, str]]) -> None:
    for item, why in kept:
        say(f"{item.id}: {item.name} stays: {why}", err=True)
    if kept:
        raise typer.Exit(ExitCode.FAILURE)


def _document(item: Quarantined, names: dict[int, str]) -> dict[str, object]:
    return {
        "id": item.id,
        "domain": names[item.domain_id],
        "name": item.name,
        "reason": item.reason,
        "detail": item.detail,
        "path": item.path,
        "at": to_iso(item.created_at),
    }


def _show(items: tuple[Quarantined, ...], names: dict[int, str], reasons: dict[str, int]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not items:
        say("quarantine is empty")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("id", "domain", "name", "reason", "detail"):
        table.add_column(title, overflow="fold", justify="right" if title == "id" else "left")
    for item in items:
        cells = (str(item.id), names[item.domain_id], item.name, item.reason, item.detail)
        table.add_row(*(Text(escape_hidden(cell)) for cell in cells))
    console = make_console()
    console.print(table)
    console.print(Text(f"{len(items)} files: {', '.join(f'{count} {reason}' for reason, count in reasons.items())}"))
