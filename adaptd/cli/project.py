"""`adaptd init`, and how every command finds its project and store."""

import re
import shlex
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptd.cli.output import say
from adaptd.errors import ConfigError
from adaptd.files import replace_file

if TYPE_CHECKING:
    from adaptd.project.layers import Project
    from adaptd.store import Store


def open_project(context: typer.Context, overrides: Mapping[str, Any] | None = None) -> "Project":
    """The project named by --project or found above the working directory."""
    from adaptd.project.layers import load_project

    return load_project(context.obj, overrides=overrides)


@contextmanager
def open_store(project: "Project") -> Iterator["Store"]:
    """The project's store, closed at the end."""
    from adaptd.store import Store

    with Store(project.database, project.settings.database.busy_timeout_seconds) as store:
        yield store


def backups(project: "Project") -> Path:
    """Where copies of the database go."""
    return project.state / "backups"


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project folder to make.")],
    name: Annotated[str | None, typer.Option(help="The model's name for clients; default: the folder's name.")] = None,
    backbone: Annotated[
        str, typer.Option(help="lenet5, lenet, resnet18, mobilenet_v2, … any torchvision classifier.")
    ] = "resnet18",
    classes: Annotated[
        str,
        typer.Option(
            metavar="A,B,…", help="Class names in output order, or a number N for 0 … N-1; default: the source's folders."
        ),
    ] = "",
) -> None:
    """Make a project folder: adaptd.toml, inbox/, models/, state/ and an empty database."""
    from adaptd.project.catalogue import CONFIG_FILE
    from adaptd.project.layers import Project, parse_settings
    from adaptd.project.lock import make_private
    from adaptd.project.settings import LENET_SETTINGS
    from adaptd.project.toml import render_toml

    folder = folder.resolve()
    if (folder / CONFIG_FILE).exists():
        raise ConfigError(f"{folder} is a project already: edit {folder / CONFIG_FILE}, or choose another folder")
    values: dict[str, Any] = {
        "model.name": _model_name(folder.name) if name is None else name,
        "model.backbone": backbone,
        "model.classes": tuple(str(n) for n in range(int(classes))) if classes.isdecimal() else _names(classes),
    }
    if backbone.startswith("lenet"):
        values |= LENET_SETTINGS
    text = render_toml(values)
    project = Project(folder, parse_settings(text), {})
    for path in (project.inbox, project.models):
        path.mkdir(parents=True, exist_ok=True)
    make_private(project.state)
    if not project.settings.database.url:
        from adaptd.store.migrate import upgrade

        upgrade(project.database, backups(project))
    replace_file(folder / CONFIG_FILE, text.encode())
    say(f"made {folder}: settings in {folder / CONFIG_FILE}")
    say(f"next: adaptd --project {shlex.quote(str(folder))} source import DIR   (labelled pictures, one folder a class)")


def _model_name(folder: str) -> str:
    """The nearest name that clients and paths can bear: "My Shop" becomes my-shop."""
    plain = unicodedata.normalize("NFKD", folder).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9._-]+", "-", plain).strip("._-")[:63] or "classifier"


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
