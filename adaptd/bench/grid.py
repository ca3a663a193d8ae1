"""A comparison on disk: a file for each finished cell, so that it goes on where it stopped, in as many processes as you like."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from adaptd.bench.cell import ORACLE, ShowStep, run_cell, train_source
from adaptd.bench.recipes import BenchDomain, Recipe
from adaptd.bench.stamp import UNKNOWN, find_commit
from adaptd.bench.unfinished import claiming
from adaptd.errors import ConfigError
from adaptd.files import remove, replace_file
from adaptd.learning.methods.registry import list_methods
from adaptd.learning.plan import Plan
from adaptd.project.settings import Settings

SOURCE_SECTIONS = ("model", "augmentation", "source")
LEARNING_SECTIONS = (*SOURCE_SECTIONS, "training", "memory")

DEFAULT_METHODS = (
    "source-only",
    "dann",
    "mcd",
    "dada",
    "cua",
    "gra",
    "contrastive+source",
    "contrastive+source+memory",
    "contrastive+sdc",
    "grcl",
    "guarded",
    ORACLE,
)


@dataclass(frozen=True, slots=True)
class Grid:
    """Methods × seeds on one recipe, in one folder."""

    recipe: Recipe
    settings: Settings
    methods: Sequence[str]
    seeds: Sequence[int]
    out: Path
    about: str = ""
    """What tells it from other grids of the same comparison."""

    def __post_init__(self) -> None:
        known = {*list_methods(), ORACLE}
        unknown = [method for method in self.methods if method not in known]
        if unknown:
            raise ConfigError(f"there is no method named {unknown[0]!r} to compare: choose from {', '.join(sorted(known))}")
        for method in self.methods:
            if method != ORACLE:
                Plan.for_adaptation(self.settings, method)  # what a method would ignore is told before hours of training

    @property
    def cells(self) -> list[tuple[str, int]]:
        """Every method and seed, seed by seed."""
        return [(method, seed) for seed in self.seeds for method in self.methods]

    def missing(self) -> list[tuple[str, int]]:
        """The cells that have no result yet."""
        return [cell for cell in self.cells if not self._file(*cell).exists()]

    def run(self, method: str, seed: int, show: ShowStep) -> bool:
        """Run one cell and keep its result, with the commit that made it; False where it is there, or another process runs it.

        A cell that was killed goes on, and has the commits of both parts if they differ.
        """
        file = self._file(method, seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        with claiming(file.with_suffix(".lock"), wait=False) as is_ours:
            if not is_ours or file.exists():
                return False
            work = file.with_suffix(".unfinished")
            commit = _note_commit(work)
            settings = self.settings.model_copy(update={"training": self.settings.training.model_copy(update={"seed": seed})})
            source = self.out / f"source-{seed}-{self._hash(SOURCE_SECTIONS, self.recipe.domains[:1])}.safetensors"
            if method != ORACLE:
                train_source(self.recipe, settings, source, show)
            result = run_cell(self.recipe, settings, method, source, show, work) | {"commit": commit}
            result |= {"epochs": settings.training.epochs, "memory": settings.memory.images_per_domain}
            replace_file(file, json.dumps(result, indent=1).encode())
            remove(work)
        return True

    def results(self) -> dict[str, Any]:
        """Everything finished with these settings, by whichever process."""
        files = [
            file for method in (*list_methods(), ORACLE) for file in sorted(self._file(method, 0).parent.glob(f"{method}-*.json"))
        ]
        rows = [{"commit": UNKNOWN} | json.loads(file.read_text(encoding="utf-8")) for file in files]
        order = {method: number for number, method in enumerate(dict.fromkeys([*DEFAULT_METHODS, *self.methods]))}
        return {
            "schema": "adaptd.bench/1",
            "recipe": self.recipe.name,
            "commits": sorted({row["commit"] for row in rows}),
            "caveats": self.recipe.caveats,
            "settings": self.settings.model_dump(mode="json"),
            "rows": sorted(rows, key=lambda row: (order.get(row["method"], 99), row["seed"])),
        }

    def _file(self, method: str, seed: int) -> Path:
        options = {} if method == ORACLE else self.settings.method.options_of(method).model_dump(mode="json")
        return self.out / "cells" / self._hash(LEARNING_SECTIONS, self.recipe.domains, options) / f"{method}-{seed}.json"

    def _hash(
        self, sections: tuple[str, ...], domains: Sequence[BenchDomain], options: Mapping[str, Any] = MappingProxyType({})
    ) -> str:
        """What a result depends on beside method and seed. Threads and device change the speed alone, nearly."""
        values = self.settings.model_dump(mode="json", include=set(sections), exclude={"training": {"seed", "threads", "device"}})
        if options:
            values["options"] = dict(options)
        names = [domain.name for domain in domains]
        return hashlib.sha256(json.dumps([values, names], sort_keys=True).encode()).hexdigest()[:12]


def _note_commit(work: Path) -> str:
    """The commit of a cell that begins or goes on; two, where it goes on with another."""
    file, now = work / "commit", find_commit()
    begun = file.read_text(encoding="utf-8") if file.is_file() else now
    commit = begun if now in begun.split(", ") else f"{begun}, {now}"
    replace_file(file, commit.encode())
    return commit
