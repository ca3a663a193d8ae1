"""A project folder: its settings from all layers, and where each value came from. The settings live in `settings`.

The only reader of configuration. Layers, strongest first: command line, `ADAPTD_SECTION__KEY`, `adaptd.toml`, defaults.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import unquote

from pydantic import ValidationError

from adaptd.errors import ConfigError, ProjectNotFound
from adaptd.project.settings import Section, Settings, hide_password

CONFIG_FILE = "adaptd.toml"
ENV_PREFIX = "ADAPTD_"

Layer = dict[tuple[str, str], tuple[Any, str]]


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

    def _resolve(self, path: str) -> Path:
        """Relative to the project, absolute, or with ~ for the home of a user."""
        return self.root / os.path.expanduser(path)  # noqa: PTH111 (Path's raises where there is no such user)


def find_project(start: Path) -> Path | None:
    """The nearest folder at or above `start` that holds an adaptd.toml."""
    start = start.absolute()
    return next((folder for folder in (start, *start.parents) if (folder / CONFIG_FILE).is_file()), None)


def load_project(
    folder: Path | None = None, environ: Mapping[str, str] = os.environ, overrides: Mapping[str, Any] | None = None
) -> Project:
    """Read a project's settings from all layers.

    Args:
        folder: the project; None looks for the nearest parent of the working directory.
        environ: where `ADAPTD_SECTION__KEY` is looked up.
        overrides: values from the command line, as `{"training.epochs": 3}`; None values are left out.
    """
    if folder is None:
        root = find_project(Path.cwd())
        if root is None:
            raise ProjectNotFound(
                f"no {CONFIG_FILE} in {Path.cwd()} or any folder above it: "
                "go to a project, name one with --project DIR, or make one with `adaptd init DIR`"
            )
    else:
        root = folder.resolve()
        if root.is_file():
            raise ProjectNotFound(f"{root} is a file: name the project's folder")
        if not (root / CONFIG_FILE).is_file():
            raise ProjectNotFound(f"{root} is no project, it has no {CONFIG_FILE}: make one with `adaptd init {folder}`")
    values, origins = _merge(_read_file(root / CONFIG_FILE), _read_environment(environ), _read_overrides(overrides or {}))
    settings = _validate(values, origins)
    return Project(root, settings, {name: origins.get(name, "default") for name in setting_names()})


def resolve_settings(
    defaults: Mapping[str, Any], overrides: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> Settings:
    """Settings without a project: `defaults` take the place of the file. Both are given as `{"training.epochs": 3}`."""
    return _validate(*_merge(_read_overrides(defaults), _read_environment(environ), _read_overrides(overrides)))


def parse_settings(text: str) -> Settings:
    """The settings a file with this text would give."""
    layer = _read_text(text, CONFIG_FILE)
    return _validate(*_merge(layer))


def setting_names() -> tuple[str, ...]:
    """Every `section.key`, in file order."""
    return tuple(f"{s}.{k}" for s, section in sections().items() for k in section.model_fields)


def sections() -> dict[str, type[Section]]:
    """The section classes by name, in file order."""
    return {
        name: field.annotation
        for name, field in Settings.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }


def _merge(*layers: Layer) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Values by section and key, and origins by `section.key`; later layers win."""
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for (section, key), (value, origin) in layer.items():
            _check_text(value, f"{origin}: [{section}] {key}")
            values.setdefault(section, {})[key] = value
            origins[f"{section}.{key}"] = origin
    return values, origins


def _check_text(value: Any, where: str) -> None:
    try:
        json.dumps(value, default=str, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: not valid UTF-8") from None


def _read_file(path: Path) -> Layer:
    try:
        return _read_text(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: cannot be read: {problem}") from problem


def _read_text(text: str, path: str) -> Layer:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{path}: not valid TOML: {problem}") from problem
    layer: Layer = {}
    for section, content in document.items():
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: {section}: stands outside a section{_suggest_key(section)}")
        layer |= {(section, key): (value, path) for key, value in content.items()}
        if not content and section not in sections():
            raise ConfigError(f"{path}: [{section}]: unknown section{_nearest(section, sections())}")
    return layer


def _read_environment(environ: Mapping[str, str]) -> Layer:
    layer: Layer = {}
    for name, text in environ.items():
        if name.startswith(ENV_PREFIX) and "__" in name:
            section, key = name.removeprefix(ENV_PREFIX).lower().split("__", 1)
            layer[section, key] = (_parse_text(section, key, text), name)
    return layer


def _read_overrides(overrides: Mapping[str, Any]) -> Layer:
    layer: Layer = {}
    for name, value in overrides.items():
        section, key = name.split(".", 1)
        if value is not None:
            layer[section, key] = (value, f"--{key.replace('_', '-')}")
    return layer


def _parse_text(section: str, key: str, text: str) -> Any:
    """Turn an environment variable into the kind of value TOML would have given."""
    field = sections()[section].model_fields.get(key) if section in sections() else None
    if field is None or field.annotation is str or get_origin(field.annotation) is Literal:
        return text
    if get_origin(field.annotation) is tuple and not text.lstrip().startswith("["):
        items = [item.strip() for item in text.split(",") if item.strip()]
        return items if str in get_args(field.annotation) else [_parse_json(item) for item in items]
    return _parse_json(text)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text.lower() if text.lower() in {"true", "false"} else text)
    except json.JSONDecodeError:
        return text


def _validate(values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        # Through JSON: pydantic's strict mode then takes lists for tuples, and still no strings for numbers.
        return Settings.model_validate_json(json.dumps(values, default=str))
    except ValidationError as problem:
        lines = [_explain(error, origins) for error in problem.errors()]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None


def _explain(error: Any, origins: Mapping[str, str]) -> str:
    section, key = (*(str(part) for part in error["loc"]), "")[:2]
    where = origins.get(f"{section}.{key}") or next((o for n, o in origins.items() if n.startswith(f"{section}.")), CONFIG_FILE)
    if section not in sections():
        return f"{where}: [{section}]: unknown section{_nearest(section, sections())}"
    if error["type"] == "extra_forbidden":
        return f"{where}: [{section}] {key}: unknown key{_suggest_key(key, section)}"
    value = "***" if key == "token" else hide_password(repr(error["input"]))
    subject = f"{key} = {value}: " if key else ""
    return f"{where}: [{section}] {subject}{_reason(error)}"


def _reason(error: Any) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "missing":
        return "too few values"
    return str(error["msg"][0].lower() + error["msg"][1:])


def _suggest_key(key: str, section: str | None = None) -> str:
    """The same key in another section, else the nearest in this one, else all keys of this one."""
    elsewhere = [name for name, fields in sections().items() if key in fields.model_fields]
    if elsewhere:
        return f"; it belongs under {' or '.join(f'[{name}]' for name in elsewhere)}"
    if section and (near := difflib.get_close_matches(key, sections()[section].model_fields, 1)):
        return f"; did you mean {near[0]}?"
    return f"; [{section}] has {', '.join(sections()[section].model_fields)}" if section else ""


def _nearest(name: str, names: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean [{near[0]}]?" if near else f"; there are {', '.join(names)}"


def render_toml(values: Mapping[str, Any] | None = None) -> str:
    """A whole adaptd.toml: every key with its description and, unless `values` has `section.key`, its default."""
    values = values or {}
    lines = [
        "# adaptd.toml: every setting with its default. Environment variables ADAPTD_SECTION__KEY go before this file,",
        "# options of the command line before both. `adaptd config show --origin` tells where each value comes from.",
    ]
    for name, section in sections().items():
        lines += ["", f"[{name}]  # {_one_line(section.__doc__)}"]
        for key, field in section.model_fields.items():
            value = values.get(f"{name}.{key}", field.default)
            lines += [f"# {field.description}{_allowed(field.annotation)}", f"{key} = {_to_toml(value)}"]
    return "\n".join(lines) + "\n"


def _allowed(annotation: Any) -> str:
    return f" ({' | '.join(get_args(annotation))})" if get_origin(annotation) is Literal else ""


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _to_toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_to_toml(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    print(render_toml(), end="")  # noqa: T201
