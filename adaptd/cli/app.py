"""What all commands have in common: `--project` may stand after them too, and flags show no type. Nothing is run here."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

Folder = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", help="The project folder; default: the nearest parent with adaptd.toml."),
]


class _PlainFlags:
    """Flags take no value: `<bool>` behind them would ask for one."""

    def get_params(self, context: Any) -> list[Any]:
        """As usual."""
        params: list[Any] = super().get_params(context)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainFlags, TyperCommand):
    """One command."""


class Group(_PlainFlags, TyperGroup):
    """Several commands under one word."""


class App(typer.Typer):
    """A group of commands; those that are told their context take `--project`."""

    def __init__(self, help: str, **options: Any) -> None:  # noqa: A002
        super().__init__(help=help, cls=Group, no_args_is_help=True, **options)

    def command(  # type: ignore[override]
        self, name: str | None = None, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Take a function in; it stays as it is."""
        register = super().command(name, cls=Command, **options)

        def take(function: Callable[..., Any]) -> Callable[..., Any]:
            register(_with_project(function))
            return function

        return take


def _with_project(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same command with one option more."""
    signature = inspect.signature(function, eval_str=True)
    if "context" not in signature.parameters:
        return function

    def run(context: typer.Context, project_folder: Path | None, **values: Any) -> None:
        context.obj = project_folder or context.obj
        function(context, **values)

    option = inspect.Parameter("project_folder", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Folder)
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in signature.parameters.values()] + [option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run
