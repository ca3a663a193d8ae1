"""`adaptd init`, and how every command finds its project and store."""

import re
import shlex
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
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


def open_project(
    context: typer.Context, overrides: Mapping[str, Any] | None = None, assignments: Sequence[str] = ()
) -> "Project":
    """The project named by --project or found above the working directory."""
    from adaptd.project.layers import load_project

    return load_project(context.obj, overrides=overrides, assignments=assignments)


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
        str,
        typer.Option(
            help="lenet5, lenet, efficientnet_lite0, resnet18, mobilenet_v2, … any torchvision classifier, or timm:NAME."
        ),
    ] = "resnet18",
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What it starts from: a safetensors file, torchvision, timm or package for published weights, none for random "
            "ones; default: what is published for the backbone.",
        ),
    ] = None,
    classes: Annotated[
        str,
        typer.Option(
            metavar="A,B,…", help="Class names in output order, or a number N for 0 … N-1; default: the source's folders."
        ),
    ] = "",
    image_size: Annotated[
        int | None, typer.Option(metavar="PIXELS", help="Images are worked on at this size, squared; default: the backbone's.")
    ] = None,
) -> None:
    """Make a project folder: adaptd.toml, inbox/, models/, state/ and an empty database."""
    from adaptd.project.catalogue import CONFIG_FILE
    from adaptd.project.layers import Project, parse_settings
    from adaptd.project.toml import render_toml
    from adaptd.project.weights import choose_weights, describe_start

    folder = folder.resolve()
    if (folder / CONFIG_FILE).exists():
        raise ConfigError(f"{folder} is a project already: edit {folder / CONFIG_FILE}, or choose another folder")
    values: dict[str, Any] = {
        "model.name": _model_name(folder.name) if name is None else name,
        "model.backbone": backbone,
        "model.classes": tuple(str(n) for n in range(int(classes))) if classes.isdecimal() else _names(classes),
        "model.weights": choose_weights(backbone, weights),
    }
    wanted = {} if image_size is None else {"model.image_size": image_size}
    parse_settings(render_toml(values | wanted))  # nothing is fetched for settings that are wrong
    text = render_toml(values | _settings_of(backbone, values["model.weights"]) | wanted)
    project = Project(folder, parse_settings(text), {})
    _make_folders(project)
    replace_file(folder / CONFIG_FILE, text.encode())
    say(f"made {folder}: settings in {folder / CONFIG_FILE}")
    say(f"its model starts {describe_start(project)[1]}")
    say(f"next: adaptd --project {shlex.quote(str(folder))} source import DIR   (labelled pictures, one folder a class)")


def _make_folders(project: "Project") -> None:
    """Inbox, models and state, with an empty database where that is a file."""
    from adaptd.project.lock import make_private
    from adaptd.store.migrate import upgrade

    for path in (project.inbox, project.models):
        path.mkdir(parents=True, exist_ok=True)
    make_private(project.state)
    if not project.settings.database.url:
        upgrade(project.database, backups(project))


def _settings_of(backbone: str, weights: str) -> dict[str, Any]:
    """What goes with a backbone; published weights that are not on this machine are fetched for that."""
    from adaptd.learning.origins import EFFICIENTNET_LITE0, INSTALL_EXTRA, LENETS, TIMM, TORCHVISION, needed_packages
    from adaptd.project.settings import EFFICIENTNET_LITE0_SETTINGS, LENET_SETTINGS, TRAINED_SETTINGS

    if missing := needed_packages(backbone):
        raise ConfigError(f"{backbone} needs the package {' and '.join(missing)}: {INSTALL_EXTRA}")
    if backbone in LENETS:
        return LENET_SETTINGS
    from adaptd.learning.backbones import check_backbone

    check_backbone(backbone)
    trained = TRAINED_SETTINGS if weights else {}
    if backbone == EFFICIENTNET_LITE0:
        return EFFICIENTNET_LITE0_SETTINGS | trained
    if weights not in {TIMM, TORCHVISION}:
        return trained
    from adaptd.learning.fetching import find_published
    from adaptd.learning.pretrained import load_pretrained

    published = find_published(backbone)
    say(f"getting {published.name} …")
    load_pretrained(backbone, weights)
    return trained | {"model.image_size": published.image_size, "model.mean": published.mean, "model.std": published.std}


def _model_name(folder: str) -> str:
    """The nearest name that clients and paths can bear: "My Shop" becomes my-shop."""
    plain = unicodedata.normalize("NFKD", folder).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9._-]+", "-", plain).strip("._-")[:63] or "classifier"


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
