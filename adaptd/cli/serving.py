"""`adaptd serve` and `adaptd predict`: published versions answer, over HTTP or offline."""

import csv
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptd.cli.output import make_console, print_json, say
from adaptd.cli.project import open_project
from adaptd.errors import ExitCode
from adaptd.text import make_visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adaptd.serving.offline import Prediction

Host = Annotated[str | None, typer.Option(help="Address to listen on; default: serving.host, this machine only.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0: any free one.")]
GrpcPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port for gRPC as well; needs the extra grpc. Default: serving.grpc_port.")
]
Token = Annotated[
    str | None,
    typer.Option(
        help="What clients must send as `Authorization: Bearer …`; ADAPTD_SERVING__TOKEN keeps it out of process lists."
    ),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Let others reach the server without a token.")]


def serve(
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    grpc_port: GrpcPort = None,
    token: Token = None,
    insecure: Insecure = False,
) -> None:
    """Serve the newest version: a page to try it, image files at /predict, Open Inference Protocol. Swaps by itself."""
    chosen = {"serving.host": host, "serving.port": port, "serving.grpc_port": grpc_port, "serving.token": token}
    project = open_project(context, chosen)
    from adaptd.library.preprocessing import Limits
    from adaptd.observe.logs import set_up_logs
    from adaptd.serving.server import check_exposure, check_grpc, run_server

    settings = project.settings
    check_exposure(settings.serving, insecure)
    check_grpc(settings.serving)
    set_up_logs(settings.logging.level, settings.logging.format)
    limits = Limits(settings.intake.max_file_bytes, settings.intake.max_pixels)
    run_server(settings.serving, project.models / settings.model.name, limits, say)


def predict(
    context: typer.Context,
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE…|DIR…", help="Image files, or folders with all that is in them.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="A line for each file, as soon as it is known: for many of them.")
    ] = False,
    version: Annotated[int | None, typer.Option(min=1, metavar="N", help="The version to use; default: the newest.")] = None,
) -> None:
    """Label images with a published version, without a server. Exits 1, the others labelled, where a file cannot be read."""
    from adaptd.api import OpenProject
    from adaptd.library.folders import list_files
    from adaptd.observe.logs import set_up_logs

    if as_json and as_csv:
        raise typer.BadParameter("choose --json or --csv, not both")
    project = open_project(context)
    set_up_logs("warning", project.settings.logging.format)
    model = OpenProject(project).load(version)
    files = [file for path in images for file in (list_files(path) if path.is_dir() else (path,))]
    found = model.predict_each(files)
    rows = _print_csv(found) if as_csv else list(found)
    if as_json:
        print_json("adaptd.predictions/1", {"model": model.name, "version": model.version, "predictions": rows})
    elif not as_csv:
        _print_table(f"version {model.version} of {model.name}", rows)
    if any("error" in row for row in rows):
        raise typer.Exit(ExitCode.FAILURE)


def _print_csv(predictions: "Iterable[Prediction]") -> "list[Prediction]":
    """A line for each as it comes; those that have an error are told on standard error too, and returned."""
    columns, failed = ("image", "label", "probability", "error"), []
    say(",".join(columns))
    for row in predictions:
        text = StringIO()
        csv.writer(text, lineterminator="").writerow(make_visible([row.get(name, "") for name in columns]))
        say(text.getvalue())
        if "error" in row:
            say(f"{row['image']}: {row['error']}", err=True)
            failed.append(row)
    return failed


def _print_table(title: str, rows: "list[Prediction]") -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in ("image", "label"):
        table.add_column(heading, overflow="fold")
    table.add_column("probability", justify="right")
    table.add_column("next")
    for row in make_visible([row for row in rows if "error" not in row]):
        others = ", ".join(f"{each['label']} {each['probability']:.3f}" for each in row["top"][1:3])
        table.add_row(escape(row["image"]), escape(row["label"]), f"{row['probability']:.3f}", escape(others))
    if table.row_count:
        make_console().print(table)
    for row in rows:
        if "error" in row:
            say(f"{row['image']}: {row['error']}", err=True)
