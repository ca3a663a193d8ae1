"""What is wrong with settings, in words: where it stands, what it is, and the nearest thing that would be right."""

import difflib
from collections.abc import Mapping
from typing import Any

from adaptd.project.catalogue import CONFIG_FILE, ENV_PREFIX, list_keys, sections
from adaptd.project.renamed import RENAMED
from adaptd.project.settings import hide_password
from adaptd.sections import IN_WORDS


def explain(error: Any, origins: Mapping[str, str]) -> str:
    """One of pydantic's errors as one line."""
    path = [str(part) for part in error["loc"]]
    depth = 2 if ".".join(path[:2]) in sections() else 1
    section, key = ".".join(path[:depth]), (*path, "", "")[depth]
    where = _find_origin(origins, section, key)
    if section not in sections():
        return f"{where}: [{section}]: unknown section{nearest_section(section)}"
    if error["type"] == "extra_forbidden":
        if isinstance(error["input"], dict):
            return f"{where}: [{section}.{key}]: unknown section{nearest_section(f'{section}.{key}')}"
        return f"{where}: [{section}] {key}: unknown key{suggest_key(key, section, where)}"
    value = "***" if key == "token" else hide_password(repr(error["input"]))
    subject = f"{key} = {value}: " if key else ""
    return f"{where}: [{section}] {subject}{_reason(error)}"


def _reason(error: Any) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "string_pattern_mismatch":
        return f"allowed: {IN_WORDS[error['ctx']['pattern']]}"
    if error["type"] == "missing":
        return "too few values"
    return str(error["msg"][0].lower() + error["msg"][1:])


def _find_origin(origins: Mapping[str, str], section: str, key: str) -> str:
    """Where a key, something inside it, or else something in its section was set."""
    exact = origins.get(f"{section}.{key}")
    inside = (origin for prefix in (f"{section}.{key}.", f"{section}.") for n, origin in origins.items() if n.startswith(prefix))
    return exact or next(inside, CONFIG_FILE)


def suggest_key(key: str, section: str | None = None, where: str = "") -> str:
    """Its new name, else the same key in another section, else the nearest in this one, else all keys of this one."""
    if section and (names := RENAMED.get(f"{section}.{key}")):
        if where.startswith(ENV_PREFIX):
            return f"; it is {' or '.join(ENV_PREFIX + name.replace('.', '__').upper() for name in names)} today"
        today = " or ".join("[{}] {}".format(*name.rsplit(".", 1)) for name in names)
        return f"; it is {today} today, and `adaptd config upgrade` renames it"
    elsewhere = [name for name, fields in sections().items() if key in list_keys(fields)]
    if elsewhere:
        return f"; it belongs under {' or '.join(f'[{name}]' for name in elsewhere)}"
    known = list_keys(sections()[section]) if section else {}
    if near := difflib.get_close_matches(key, known, 1):
        return f"; did you mean {near[0]}?"
    return f"; [{section}] has {', '.join(known)}" if known else ""


def nearest_section(name: str) -> str:
    """The section that was meant, else all there are."""
    known = [known for known in sections() if known.count(".") <= name.count(".")]
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean [{near[0]}]?" if near else f"; there are {', '.join(known)}"
