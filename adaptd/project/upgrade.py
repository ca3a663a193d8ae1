"""An adaptd.toml of an older adaptd, written anew with today's names. What has to change beside names is told."""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adaptd.errors import ConfigError
from adaptd.files import replace_file
from adaptd.project.catalogue import CONFIG_FILE, setting_names
from adaptd.project.layers import parse_settings
from adaptd.project.renamed import RENAMED, rename_settings
from adaptd.project.toml import render_toml

KEPT_FILE = f"{CONFIG_FILE}.before-upgrade"


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What came of it: where the file as it was is kept, and a sentence for each value that could not stay."""

    kept: Path
    changed: tuple[str, ...]


def upgrade_file(root: Path) -> Upgraded | None:
    """Rename what has another name today; None where nothing had to change.

    Raises:
        ConfigError: the file cannot be read, or would not hold under today's names; nothing was written.
    """
    path = (root / CONFIG_FILE).resolve()
    kept = path.with_name(KEPT_FILE)
    try:
        content, mode = path.read_bytes(), path.stat().st_mode & 0o777
        document = tomllib.loads(content.decode("utf-8-sig"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{path}: cannot be read: {problem}") from problem
    before, values = _flatten(document), _flatten(rename_settings(document))
    if values == before:
        return None
    _require_sense(path, before, values)
    text = render_toml(values)
    parse_settings(text)
    if os.path.lexists(kept):
        raise ConfigError(f"{kept} is there already: move it away, so that {path} can be kept under that name")
    replace_file(kept, content, mode=mode)
    replace_file(path, text.encode(), mode=mode)
    changed = [name for name in before.keys() & values.keys() if before[name] != values[name]]
    told = (f"{name} was {before[name]} and had no effect: it is {values[name]} now" for name in sorted(changed))
    return Upgraded(kept, tuple(told))


def _require_sense(path: Path, before: dict[str, Any], values: dict[str, Any]) -> None:
    if unknown := sorted(values.keys() - set(setting_names())):
        raise ConfigError(f"{path}: {', '.join(unknown)}: nothing has this name; correct it first, or remove it")
    for old, names in RENAMED.items():
        if old in before and (twice := sorted(before.keys() & set(names))):
            raise ConfigError(f"{path}: {old} is {' and '.join(twice)} today, and both are there: remove one of them")


def _flatten(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value by its `section.key`."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        found |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
