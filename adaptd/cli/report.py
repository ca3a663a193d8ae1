"""`adaptd report`: everything the dashboard shows, in one file."""

from pathlib import Path
from typing import Annotated

import typer

from adaptd.cli.output import say
from adaptd.cli.project import open_project, open_store


def report(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="Where to write it.")] = Path("report.html"),
) -> None:
    """Write one self-contained HTML file: overview, matrix, domains with pictures, versions, events. Works while stopped."""
    from adaptd.observe.dashboard.report import make_report
    from adaptd.observe.dashboard.site import Site
    from adaptd.observe.pictures import StoredPictures
    from adaptd.project.lock import find_holder

    project = open_project(context)
    with open_store(project) as store, store.reading() as tx:
        site = Site(project, store, lambda: find_holder(project.state), StoredPictures(project.state))
        text = make_report(tx, site)
    out.write_text(text, encoding="utf-8")
    say(f"wrote {out}: {len(text) / 1e6:.1f} MB")
