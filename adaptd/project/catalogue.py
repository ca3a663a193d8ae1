"""Which settings there are: sections and keys by name, read off the settings themselves."""

from collections.abc import Mapping

from pydantic.fields import FieldInfo

from adaptd.project.settings import Settings
from adaptd.sections import Section

CONFIG_FILE = "adaptd.toml"
ENV_PREFIX = "ADAPTD_"


def sections() -> dict[str, type[Section]]:
    """The section classes by name, in file order; a section inside another follows it as `method.guarded`."""
    return _inside(Settings, "")


def list_keys(section: type[Section]) -> Mapping[str, FieldInfo]:
    """What a section holds, but for the sections inside it."""
    return {key: field for key, field in section.model_fields.items() if _find_section(field) is None}


def setting_names() -> tuple[str, ...]:
    """Every `section.key`, in file order."""
    return tuple(f"{name}.{key}" for name, section in sections().items() for key in list_keys(section))


def _inside(outer: type[Section], prefix: str) -> dict[str, type[Section]]:
    found: dict[str, type[Section]] = {}
    for key, field in outer.model_fields.items():
        if section := _find_section(field):
            found |= {f"{prefix}{key}": section, **_inside(section, f"{prefix}{key}.")}
    return found


def _find_section(field: FieldInfo) -> type[Section] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None
