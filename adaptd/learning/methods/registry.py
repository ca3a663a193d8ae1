"""Methods by name, without loading them. To add one: its file, its options in `options`, and its line here."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from adaptd.errors import ConfigError
from adaptd.learning.methods.options import (
    ContrastiveSdcOptions,
    ContrastiveSourceMemoryOptions,
    ContrastiveSourceOptions,
    CuaOptions,
    DadaOptions,
    DannOptions,
    GraOptions,
    GrclOptions,
    GuardedOptions,
    McdOptions,
    NoOptions,
    SelfTrainingOptions,
)
from adaptd.sections import Section

RuleName = Literal["sgd", "adamw", "rmsprop"]

RATES: Mapping[RuleName, float] = {"sgd": 0.001, "adamw": 0.0001, "rmsprop": 0.0001}
"""What a pretrained network bears; a LeNet bears ten times as much."""

MCD_RATES: Mapping[RuleName, float] = {**RATES, "adamw": 0.00002}
"""MCD's and DADA's codes take 0.0002 for their digits: there too a tenth for a pretrained network."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known about a method before it is loaded.

    Args:
        implementation: "module:Class", imported when an episode begins.
        options: its `[method.<name>]`.
        rule: its update rule, where [training] names none.
        rates: peak learning rates by rule, where [training] names none.
        adapts: whether it is a choice for [method] name; supervised training is not.
        trains: whether it takes steps at all.
    """

    implementation: str
    options: type[Section] = NoOptions
    rule: RuleName = "sgd"
    rates: Mapping[RuleName, float] = field(default_factory=lambda: RATES)
    adapts: bool = True
    trains: bool = True


_HERE = __package__

METHODS: dict[str, Entry] = {
    "grcl": Entry(f"{_HERE}.grcl:Grcl", GrclOptions),
    "contrastive+sdc": Entry(f"{_HERE}.grcl:ContrastiveSdc", ContrastiveSdcOptions),
    "contrastive+source": Entry(f"{_HERE}.multitask:ContrastiveSource", ContrastiveSourceOptions),
    "contrastive+source+memory": Entry(f"{_HERE}.multitask:ContrastiveSourceMemory", ContrastiveSourceMemoryOptions),
    "source-only": Entry(f"{_HERE}.source_only:SourceOnly", trains=False),
    "guarded": Entry(f"{_HERE}.guarded:Guarded", GuardedOptions, "rmsprop"),
    "self-training": Entry(f"{_HERE}.guarded:SelfTraining", SelfTrainingOptions, "rmsprop"),
    "dann": Entry(f"{_HERE}.dann:Dann", DannOptions, "adamw"),
    "cua": Entry(f"{_HERE}.cua:Cua", CuaOptions, "adamw"),
    "gra": Entry(f"{_HERE}.gra:Gra", GraOptions),
    "mcd": Entry(f"{_HERE}.mcd:Mcd", McdOptions, "adamw", MCD_RATES),
    "dada": Entry(f"{_HERE}.dada:Dada", DadaOptions, "adamw", MCD_RATES),
    "supervised": Entry(f"{_HERE}.supervised:Supervised", rule="adamw", adapts=False),
}


def list_methods() -> tuple[str, ...]:
    """The choices for [method] name."""
    return tuple(name for name, entry in METHODS.items() if entry.adapts)


def get_entry(name: str) -> Entry:
    """What is known about a method."""
    if name not in METHODS:
        raise ConfigError(describe_unknown(name, METHODS))
    return METHODS[name]


def describe_unknown(name: str, known: Iterable[str]) -> str:
    """The fact and the remedy for a name that nobody has."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1)
    remedy = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
    return f"there is no method named {name!r}: {remedy}"


def section_name(method: str) -> str:
    """The method's section under [method]: a key that TOML and environment variables take without quotes."""
    return method.replace("+", "_").replace("-", "_")
