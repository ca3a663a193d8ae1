"""`adaptd config`: what the settings are, where they come from, whether they hold."""

from typing import Annotated, Any

import typer

from adaptd.cli.app import App
from adaptd.cli.output import make_console, print_json, say
from adaptd.cli.project import open_project

app = App("Show and check the settings.")


@app.command()
def show(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    origin: Annotated[bool, typer.Option("--origin", help="Also tell where each value comes from.")] = False,
) -> None:
    """Print every setting with its value; of the methods' options those of the chosen one, and what was set."""
    project = open_project(context)
    settings = project.settings.model_dump(mode="json")
    if as_json:
        extra = {"origins": dict(project.origins)} if origin else {}
        print_json(
            "adaptd.config/1",
            {"project": str(project.root), "hash": project.settings.hash, "settings": settings, **extra},
        )
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for name, where in project.origins.items():
        if where != "default" or not _is_of_another_method(name, project.settings.method.name):
            table.add_row(name, repr(_look_up(settings, name)), *([f"[dim]{where}[/]"] if origin else []))
    make_console().print(table)


def _is_of_another_method(name: str, method: str) -> bool:
    """Whether it is an option that the chosen method does not have: nobody wants to read all of those."""
    from adaptd.learning.methods.registry import section_name

    return name.count(".") == 2 and not name.startswith(f"method.{section_name(method)}.")


def _look_up(settings: dict[str, Any], name: str) -> Any:
    value: Any = settings
    for part in name.split("."):
        value = value[part]
    return value


@app.command()
def check(context: typer.Context) -> None:
    """Say whether the settings hold; exit 5 and every problem where they don't."""
    from adaptd.learning.backbones import check_backbone

    project = open_project(context)
    check_backbone(project.settings.model.backbone)
    say(f"{project.root / 'adaptd.toml'}: fine, hash {project.settings.hash[:12]}")


@app.command()
def upgrade(context: typer.Context) -> None:
    """Write adaptd.toml anew with today's names; the file as it was stays beside it."""
    from adaptd.project.layers import get_root
    from adaptd.project.upgrade import upgrade_file

    done = upgrade_file(get_root(context.obj))
    if done is None:
        say("every name is today's: nothing to do")
        return
    say(f"written with today's names, defaults as comments; as it was: {done.kept}", *done.changed)
