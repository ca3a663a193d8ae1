"""`adaptd labels`: lists of images to label, the labels back in, and what they say. Estimates become measurements by this."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptd.cli.app import App
from adaptd.cli.output import make_console, print_json, say
from adaptd.cli.progress import progress_bar
from adaptd.cli.project import open_project, open_store
from adaptd.errors import LabelsRefused
from adaptd.text import tell_count

if TYPE_CHECKING:
    from adaptd.labels.choosing import Gallery
    from adaptd.project.layers import Project
    from adaptd.records import Image
    from adaptd.store import Store

app = App("Labels that people give to a domain's images.")

Name = Annotated[str, typer.Argument(metavar="DOMAIN", help="The domain's name; `adaptd status` lists them.")]


@app.command()
def template(
    context: typer.Context,
    domain: Name,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Images in each list.")] = 100,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write; default: labels-DOMAIN in this folder.")
    ] = None,
) -> None:
    """Choose images to label, and write lists to fill in (CSV) with contact sheets (PNG).

    measure.csv has held-out images drawn at random, always the same ones: labels for them measure every version without bias.
    teach.csv has images that versions disagree on or are least sure of: they teach where labels.train is on, and are never
    measured on. What is labelled already is filled in.
    """
    from adaptd.labels.choosing import choose_to_measure, choose_to_teach, read_gallery
    from adaptd.labels.doubt import find_doubts
    from adaptd.labels.summary import tell_shortage

    project = open_project(context)
    folder = output or Path(f"labels-{domain}".replace("/", "-"))
    with open_store(project) as store:
        with store.reading() as tx:
            gallery = read_gallery(tx, domain)
        measure = choose_to_measure(gallery, count)
        teach = choose_to_teach(gallery, count, find_doubts(project, store, gallery))
    _write(project, folder, "measure", gallery, measure)
    _write(project, folder, "teach", gallery, teach)
    if gallery.has_test:
        say(f"{domain} is measured on its own test set: there is nothing to label for that")
    elif not gallery.held_out:
        say(f"no images of {domain} are held out: measure.csv has images that episodes learned from, unlabelled, and may flatter")
    elif shortage := tell_shortage(len(gallery.held_out)):
        say(shortage)
    say("fill in the column label with one of these classes:", f"  {', '.join(gallery.classes)}")
    filled = folder / ("teach.csv" if gallery.has_test else "measure.csv")
    say(f"then: adaptd labels import {quote(domain)} {quote(str(filled))}")


@app.command("import")
def import_labels(
    context: typer.Context,
    domain: Name,
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE.csv|DIR", help="CSV with the columns image and label, or a folder with one folder a class."),
    ],
    teach: Annotated[
        bool, typer.Option("--teach", help="They are to teach; matters only where no images are held out. Never measured on.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take a list that is labelled in part; without this, an empty label refuses it.")
    ] = False,
) -> None:
    """Take labels, all of them or none, and measure every stored version on them.

    An image is named by its file as it was dropped (a path, or the bare name where it is the only one), or by its SHA-256; a
    file in a class's folder is known by its content, else by its name. Commas, semicolons or tabs, with or without a BOM. A
    label given again replaces the old one. Labels of held-out images measure; all others teach where labels.train is on.
    Wrong names, unknown classes, images that stand there twice and lists labelled in part are reported, and nothing is taken.
    """
    from adaptd.labels import giving
    from adaptd.labels.choosing import read_gallery
    from adaptd.labels.reading import match_rows, read_rows

    project = open_project(context)
    with open_store(project) as store:
        with store.reading() as tx:
            gallery = read_gallery(tx, domain)
        try:
            answer = match_rows(gallery, read_rows(path), teach=teach, partial=partial)
        except LabelsRefused as problem:
            say(*problem.problems, err=True)
            raise
        counts = giving.import_labels(store, domain, answer.labels, path.name, teach=teach)
        rest = f"; {answer.left_open} rows left open" if answer.left_open else ""
        say(f"{tell_count(len(answer.labels), 'label')} taken: {giving.tell_purposes(counts)}{rest}")
        _measure(project, store, gallery.domain.id)
        _show(_describe(project, store, domain))


@app.command()
def show(
    context: typer.Context,
    domain: Name,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show how many labels a domain has, what was measured on them, and how far estimates had been off."""
    project = open_project(context)
    with open_store(project) as store:
        about = _describe(project, store, domain)
    if as_json:
        print_json("adaptd.labels/1", about)
    else:
        _show(about)


@app.command()
def remove(
    context: typer.Context,
    domain: Name,
    images: Annotated[list[str] | None, typer.Argument(metavar="[IMAGE…]", help="File names, as in the list.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All labels of the domain.")] = False,
) -> None:
    """Take labels back. What was measured on them is forgotten, and measured anew on those that are left."""
    from adaptd.labels import giving
    from adaptd.labels.choosing import read_gallery
    from adaptd.labels.reading import find_images

    if bool(images) == everything:
        raise typer.BadParameter("name images, or give --all")
    project = open_project(context)
    with open_store(project) as store:
        with store.reading() as tx:
            gallery = read_gallery(tx, domain)
        chosen = list(gallery.labels) if everything else [image.id for image in find_images(gallery, images or ())]
        say(f"{giving.remove_labels(store, domain, chosen)} labels taken back")
        _measure(project, store, gallery.domain.id)


def _write(project: "Project", folder: Path, name: str, gallery: "Gallery", images: "tuple[Image, ...]") -> None:
    from adaptd.labels.sheets import write_list, write_sheets
    from adaptd.observe.pictures import StoredPictures

    if not images:
        return
    write_list(folder / f"{name}.csv", gallery, images)
    sheets = write_sheets(folder, name, gallery, images, StoredPictures(project.state).find_png)
    done = sum(image.id in gallery.labels for image in images)
    say(f"{folder / f'{name}.csv'}: {len(images)} images, {done} labelled; {len(sheets)} contact sheets {sheets[0].name} …")


def _measure(project: "Project", store: "Store", domain_id: int) -> None:
    from adaptd.labels.measuring import measure_domain

    with progress_bar("measuring versions") as bar:
        measured = measure_domain(project, store, domain_id, bar)
    say(*measured.troubles, err=True)


def _describe(project: "Project", store: "Store", domain: str) -> dict[str, Any]:
    from adaptd.labels.summary import describe_labels

    with store.reading() as tx:
        return describe_labels(tx, domain, project.settings.evaluation.confidence)


def _show(about: dict[str, Any]) -> None:
    from rich.table import Table

    from adaptd.labels.summary import tell_errors, tell_shortage

    known = "" if about["half_width"] is None else f": known to ± {100 * about['half_width']:.1f} points at worst"
    say(f"{about['domain']}: {about['to_measure']} labels to measure on{known}; {about['to_teach']} to teach")
    if about["missing"]:
        remedy = tell_shortage(about["held_out"]) or f"adaptd labels template {quote(about['domain'])}"
        say(f"{about['missing']} more are needed for a measurement: {remedy}")
    if not about["versions"]:
        return
    table = Table(box=None, pad_edge=False)
    for title in ("version", "state", "measured", "interval", "n", "estimated", "off by"):
        table.add_column(title, justify="left" if title == "state" else "right")
    for item in about["versions"]:
        table.add_row(
            str(item["version"]),
            item["state"],
            f"{item['value']:.1%}",
            f"{item['low']:.1%} to {item['high']:.1%}" if item["low"] is not None else "–",
            str(item["n"]),
            "–" if item["estimate"] is None else f"~{item['estimate']:.1%}",
            "–" if item["error"] is None else f"{100 * item['error']:+.1f}",
        )
    make_console().print(table)
    if errors := tell_errors(about):
        say(errors.removeprefix("; "))
