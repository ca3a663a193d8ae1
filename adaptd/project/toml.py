"""adaptd.toml as `adaptd init` writes it: what differs from the defaults, every other setting as a comment.

`python -m adaptd.project.toml` prints it. [model] is written whole: a model stays what it was made with.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from adaptd.learning.methods.registry import section_name
from adaptd.project.catalogue import list_keys, sections
from adaptd.project.settings import Settings
from adaptd.sections import Section

HEAD = """\
# adaptd.toml: every setting with its description. A line that begins with `#key =` shows a default, which may get better with the
# next adaptd: take the # away to set it yourself. [model] is what the model is made with, and stays.
# Environment variables ADAPTD_SECTION__KEY go before this file, options of the command line before both.
# `adaptd config show --origin` tells where each value comes from.
# Methods other than the chosen one have sections of their own, which may stand here too: docs/configuration.md.
"""

WHOLE = "model"
"""The section whose defaults are written, too."""


def render_toml(values: Mapping[str, Any] | None = None) -> str:
    """A whole adaptd.toml: every key with its description, set where `values` has another value for it than its default.

    Of the methods' sections, the chosen one's and those with a value of their own.
    """
    values = values or {}
    method = section_name(values.get("method.name", Settings().method.name))
    shown = {
        name: section
        for name, section in sections().items()
        if "." not in name or name == f"method.{method}" or _is_changed(name, section, values)
    }
    return "\n".join([HEAD.rstrip(), *(line for name in shown for line in _render(name, shown[name], values))]) + "\n"


def _is_changed(name: str, section: type[Section], values: Mapping[str, Any]) -> bool:
    return any(values.get(f"{name}.{key}", field.default) != field.default for key, field in list_keys(section).items())


def _render(name: str, section: type[Section], values: Mapping[str, Any]) -> list[str]:
    lines = ["", f"[{name}]  # {_one_line(section.__doc__)}"]
    for key, field in list_keys(section).items():
        value = values.get(f"{name}.{key}", field.default)
        is_set = name == WHOLE or _to_toml(value) != _to_toml(field.default)
        lines += [f"# {field.description}{_allowed(field.annotation)}", f"{'' if is_set else '#'}{key} = {_to_toml(value)}"]
    return lines


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
