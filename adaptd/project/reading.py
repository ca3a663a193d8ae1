"""The layers that settings come from, each as values with their origin: a file, environment variables, the command line."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from adaptd.errors import ConfigError
from adaptd.project.catalogue import ENV_PREFIX, sections
from adaptd.project.problems import nearest_section, suggest_key

EPISODE_SECTIONS = ("method", "training", "augmentation", "memory", "evaluation", "labels", "gate", "export", "intake")
"""What may be set for one episode."""

Layer = dict[tuple[str, str], tuple[Any, str]]
"""(section, key) → value and origin; the section may be one inside another, as `method.guarded`."""


def read_file(path: Path) -> Layer:
    """The layer in a file."""
    try:
        return read_text(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: cannot be read: {problem}") from problem


def read_text(text: str, path: str) -> Layer:
    """The layer that a file of this text has."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{path}: not valid TOML: {problem}") from problem
    layer: Layer = {}
    for section, content in document.items():
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: {section}: stands outside a section{suggest_key(section)}")
        layer |= _read_section(section, content, path)
    return layer


def _read_section(section: str, content: Mapping[str, Any], path: str) -> Layer:
    if not content and section not in sections():
        raise ConfigError(f"{path}: [{section}]: unknown section{nearest_section(section)}")
    layer: Layer = {}
    for key, value in content.items():
        if isinstance(value, dict):
            layer |= _read_section(f"{section}.{key}", value, path)
        else:
            layer[section, key] = (value, path)
    return layer


def read_environment(environ: Mapping[str, str]) -> Layer:
    """The layer of `ADAPTD_SECTION__KEY`."""
    layer: Layer = {}
    for name, text in environ.items():
        if name.startswith(ENV_PREFIX) and "__" in name:
            *path, key = name.removeprefix(ENV_PREFIX).lower().split("__")
            layer[".".join(path), key] = (_parse_text(".".join(path), key, text), name)
    return layer


def read_overrides(overrides: Mapping[str, Any]) -> Layer:
    """The layer of the command line, given as `{"training.epochs": 3}`; None values are left out."""
    layer: Layer = {}
    for name, value in overrides.items():
        section, _, key = name.rpartition(".")
        if value is not None:
            layer[section, key] = (value, f"--{key.replace('_', '-')}")
    return layer


def read_assignments(assignments: Iterable[str]) -> Layer:
    """The layer of `--set section.key=value`: what counts for one episode."""
    layer: Layer = {}
    for text in assignments:
        name, is_one, value = text.partition("=")
        section, _, key = name.strip().rpartition(".")
        if not is_one or not section:
            raise ConfigError(f"--set {text}: write section.key=value, as training.epochs=3{suggest_key(key or name)}")
        if section.partition(".")[0] not in EPISODE_SECTIONS:
            known = f"counts for no episode; those that do: {', '.join(EPISODE_SECTIONS)}"
            raise ConfigError(
                f"--set {text}: [{section}] " + (known if section in sections() else f"is no section{nearest_section(section)}")
            )
        layer[section, key] = (_parse_text(section, key, value.strip()), f"--set {name.strip()}")
    return layer


def merge(*layers: Layer) -> tuple[dict[str, Any], dict[str, str]]:
    """Values as one document, and origins by `section.key`; later layers win."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for (section, key), (value, origin) in layer.items():
            _check_text(value, f"{origin}: [{section}] {key}")
            place = values
            for part in section.split("."):
                place = place.setdefault(part, {})
                if not isinstance(place, dict):
                    raise ConfigError(f"{origin}: [{section}] {key}: {part} is a key and not a section")
            place[key] = value
            origins[f"{section}.{key}"] = origin
    return values, origins


def _check_text(value: Any, where: str) -> None:
    try:
        json.dumps(value, default=str, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: not valid UTF-8") from None


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
