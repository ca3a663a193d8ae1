"""A project folder: its settings from all layers, and where each value came from. The settings live in `settings`.

The only reader of configuration. Layers, strongest first: command line, `ADAPTD_SECTION__KEY`, `adaptd.toml`, defaults.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from adaptd.errors import ConfigError, ProjectNotFound
from adaptd.learning.methods.settings import find_ignored
from adaptd.learning.origins import ORIGINS
from adaptd.project.catalogue import CONFIG_FILE, setting_names
from adaptd.project.problems import explain
from adaptd.project.reading import merge, read_assignments, read_environment, read_file, read_overrides, read_text
from adaptd.project.settings import Settings


@dataclass(frozen=True, slots=True)
class Project:
    """A project folder with its settings and, for each `section.key`, where its value came from."""

    root: Path
    settings: Settings
    origins: Mapping[str, str]

    @property
    def inbox(self) -> Path:
        """The watched folder."""
        return self._resolve(self.settings.paths.inbox)

    @property
    def state(self) -> Path:
        """Everything that is ours alone."""
        return self._resolve(self.settings.paths.state)

    @property
    def models(self) -> Path:
        """The model repository."""
        return self._resolve(self.settings.paths.models)

    @property
    def database(self) -> Path | str:
        """The store: a SQLite file, or the address of a PostgreSQL database."""
        url = self.settings.database.url
        if url.startswith("sqlite:///"):
            return self._resolve(unquote(url.removeprefix("sqlite:///").partition("?")[0]))
        return url or self.state / "adaptd.db"

    @property
    def weights(self) -> Path | None:
        """The file that the source training starts from; None where it starts from published or random weights."""
        given = self.settings.model.weights
        return None if given in {"", *ORIGINS} else self.root / given

    def _resolve(self, path: str) -> Path:
        """Relative to the project, absolute, or with ~ for the home of a user."""
        return self.root / os.path.expanduser(path)  # noqa: PTH111 (Path's raises where there is no such user)


def find_project(start: Path) -> Path | None:
    """The nearest folder at or above `start` that holds an adaptd.toml."""
    start = start.absolute()
    return next((folder for folder in (start, *start.parents) if (folder / CONFIG_FILE).is_file()), None)


def get_root(folder: Path | None) -> Path:
    """The project folder itself, or None for the nearest at or above the working directory.

    Raises:
        ProjectNotFound: there is no adaptd.toml.
    """
    if folder is None:
        root = find_project(Path.cwd())
        if root is None:
            raise ProjectNotFound(
                f"no {CONFIG_FILE} in {Path.cwd()} or any folder above it: "
                "go to a project, name one with --project DIR, or make one with `adaptd init DIR`"
            )
        return root
    root = folder.resolve()
    if root.is_file():
        raise ProjectNotFound(f"{root} is a file: name the project's folder")
    if not (root / CONFIG_FILE).is_file():
        raise ProjectNotFound(f"{root} is not a project, it has no {CONFIG_FILE}: make one with `adaptd init {folder}`")
    return root


def load_project(
    folder: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
) -> Project:
    """Read a project's settings from all layers.

    Args:
        folder: the project; None looks for the nearest parent of the working directory.
        environ: where `ADAPTD_SECTION__KEY` is looked up.
        overrides: values from the command line, as `{"training.epochs": 3}`; None values are left out.
        assignments: the same as text, for one episode: `training.epochs=3`.
    """
    root = get_root(folder)
    given = read_overrides(overrides or {}), read_assignments(assignments)
    values, origins = merge(read_file(root / CONFIG_FILE), read_environment(environ), *given)
    settings = _validate(values, origins)
    if ignored := find_ignored(settings.training, settings.method.name):
        raise ConfigError("\n".join(_tell(key, reason, settings, origins) for key, reason in ignored.items()))
    return Project(root, settings, {name: origins.get(name, "default") for name in setting_names()})


def resolve_settings(
    defaults: Mapping[str, Any], overrides: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> Settings:
    """Settings without a project: `defaults` take the place of the file. Both are given as `{"training.epochs": 3}`."""
    return _validate(*merge(read_overrides(defaults), read_environment(environ), read_overrides(overrides)))


def parse_settings(text: str) -> Settings:
    """The settings a file with this text would give."""
    return _validate(*merge(read_text(text, CONFIG_FILE)))


def _validate(values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        # Through JSON: pydantic's strict mode then takes lists for tuples, and still no strings for numbers.
        return Settings.model_validate_json(json.dumps(values, default=str))
    except ValidationError as problem:
        lines = [explain(error, origins) for error in problem.errors()]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None


def _tell(key: str, reason: str, settings: Settings, origins: Mapping[str, str]) -> str:
    return f"{origins[f'training.{key}']}: [training] {key} = {getattr(settings.training, key)}: {reason}"
