"""`adaptd serve` and `adaptd predict`: published versions answer, over HTTP or offline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptd.cli.output import make_console, print_json, say
from adaptd.cli.project import open_project
from adaptd.errors import ExitCode
from adaptd.text import make_visible

if TYPE_CHECKING:
    from adaptd.library.preprocessing import Limits
    from adaptd.project.layers import Project

Host = Annotated[str | None, typer.Option(help="Address to listen on; default: serving.host, this machine only.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0: any free one.")]
Token = Annotated[
    str | None,
    typer.Option(
        help="What clients must send as `Authorization: Bearer …`; ADAPTD_SERVING__TOKEN keeps it out of process lists."
    ),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Let others reach the server without a token.")]


def serve(context: typer.Context, host: Host = None, port: Port = None, token: Token = None, insecure: Insecure = False) -> None:
    """Serve the newest version over HTTP: Open Inference Protocol, and image files at /predict. Swaps by itself."""
    project = open_project(context, {"serving.host": host, "serving.port": port, "serving.token": token})
    from adaptd.observe.logs import set_up_logs
    from adaptd.serving.server import check_exposure, run_server

    settings = project.settings
    check_exposure(settings.serving, insecure)
    set_up_logs(settings.logging.level, settings.logging.format)
    run_server(settings.serving, project.models / settings.model.name, _limits(project), say)


def predict(
    context: typer.Context,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE…", help="Image files.")],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    version: Annotated[int | None, typer.Option(min=1, metavar="N", help="The version to use; default: the newest.")] = None,
) -> None:
    """Label images with a published version, without a server."""
    from adaptd.observe.logs import set_up_logs
    from adaptd.serving.offline import open_version, predict_files

    project = open_project(context)
    settings = project.settings
    set_up_logs("warning", settings.logging.format)
    model = open_version(project.models / settings.model.name, version, settings.serving.device)
    rows = list(predict_files(images, model, _limits(project), settings.serving.max_batch_size))
    if as_json:
        print_json("adaptd.predictions/1", {"model": model.name, "version": model.version, "predictions": rows})
    else:
        _print_table(f"version {model.version} of {model.name}", rows)
    if any("error" in row for row in rows):
        raise typer.Exit(ExitCode.FAILURE)


def _limits(project: "Project") -> "Limits":
    from adaptd.library.preprocessing import Limits

    intake = project.settings.intake
    return Limits(intake.max_file_bytes, intake.max_pixels)


def _print_table(title: str, rows: list[dict[str, Any]]) -> None:
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
