"""`adaptd init`, and how every command finds its project and store."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptd.config import CONFIG_FILE, Project, load_project, parse_settings, render_toml
from adaptd.errors import ConfigError
from adaptd.settings import LENET_SETTINGS

if TYPE_CHECKING:
    from adaptd.store import Store


def open_project(context: typer.Context, overrides: Mapping[str, Any] | None = None) -> Project:
    """The project named by --project or found above the working directory."""
    return load_project(context.obj, overrides=overrides)


@contextmanager
def open_store(project: Project) -> Iterator["Store"]:
    """The project's store, closed at the end."""
    from adaptd.store import Store

    with Store(project.database_url, project.settings.database.busy_timeout_seconds) as store:
        yield store


def backups(project: Project) -> Path:
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
    if (folder / CONFIG_FILE).exists():
        raise ConfigError(f"{folder} is a project already: edit {folder / CONFIG_FILE}, or choose another folder")
    values: dict[str, Any] = {
        "model.name": folder.absolute().name.lower() if name is None else name,
        "model.backbone": backbone,
        "model.classes": tuple(str(n) for n in range(int(classes))) if classes.isdecimal() else _names(classes),
    }
    if backbone.startswith("lenet"):
        values |= LENET_SETTINGS
    text = render_toml(values)
    project = Project(folder.absolute(), parse_settings(text), {})
    for path in (project.inbox, project.models, project.state):
        path.mkdir(parents=True, exist_ok=True)
    if not project.settings.database.url:
        from adaptd.store.migrate import upgrade

        upgrade(project.database_url, backups(project))
    _write(folder / CONFIG_FILE, text)
    typer.echo(f"made {folder}: settings in {folder / CONFIG_FILE}")
    typer.echo(f"next: adaptd --project {folder} source import DIR   (labelled pictures, one folder a class)")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _write(path: Path, text: str) -> None:
    """Write a file that others see whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
