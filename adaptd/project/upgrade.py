"""An adaptd.toml of an older adaptd, written anew with today's names. Values stay as they are."""

import tomllib
from pathlib import Path
from typing import Any

from adaptd.errors import ConfigError
from adaptd.files import replace_file
from adaptd.project.catalogue import CONFIG_FILE, setting_names
from adaptd.project.renamed import rename_settings
from adaptd.project.toml import render_toml

KEPT_FILE = f"{CONFIG_FILE}.before-upgrade"


def upgrade_file(root: Path) -> Path | None:
    """Rename what has another name today; where the file as it was is kept, None where nothing had to change."""
    path, kept = root / CONFIG_FILE, root / KEPT_FILE
    try:
        content = path.read_bytes()
        document = tomllib.loads(content.decode("utf-8-sig"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{path}: cannot be read: {problem}") from problem
    renamed = rename_settings(document)
    if renamed == document:
        return None
    values = dict(_flatten(renamed))
    if unknown := sorted(values.keys() - set(setting_names())):
        raise ConfigError(f"{path}: {', '.join(unknown)}: nothing has this name; correct it first, or remove it")
    if kept.exists():
        raise ConfigError(f"{kept} is there already: move it away, so that {path} can be kept under that name")
    replace_file(kept, content)
    replace_file(path, render_toml(values).encode())
    return kept


def _flatten(document: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Every value with its `section.key`."""
    found: list[tuple[str, Any]] = []
    for key, value in document.items():
        found += _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return found
