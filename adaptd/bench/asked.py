"""A comparison as somebody asks for it: which data, methods, seeds and variants; and the grids of cells that it comes to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from pathlib import Path

from adaptd.bench import domainnet
from adaptd.bench.grid import DEFAULT_METHODS, Grid
from adaptd.bench.pairs import Pairs
from adaptd.bench.recipes import DIGITS, Recipe, data_folder, load_digits, load_folders, load_office_caltech
from adaptd.errors import ConfigError
from adaptd.library.draft import ShowProgress
from adaptd.project.layers import resolve_settings
from adaptd.project.settings import Settings

RECIPES = ("digits", "office-caltech", "domainnet", "folders", "pairs")
ALONE_METHODS = ("source-only", "contrastive+source", "contrastive+sdc")
"""Those of the paper's figure 4."""


class Kind(StrEnum):
    """What is compared."""

    METHODS = "methods"
    PAIRS = "pairs"
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Asked:
    """All of it, as plain values that another process can be given.

    Args:
        recipe: one of RECIPES.
        kind: the whole sequence, every ordered pair, or each target alone.
        folders: for `folders` and `pairs`.
        methods: their names; none: the usual ones of the kind.
        seeds: one run of each method a seed.
        epochs: lengths of the schedule to try; none: the setting.
        memory: sizes of the memory to try; none: the setting.
        data: the benchmark data.
        out: where results go.
        domains: of digits, the source first.
        threads: of each process; 0: the setting.
    """

    recipe: str
    kind: Kind
    folders: tuple[Path, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    epochs: tuple[int, ...]
    memory: tuple[int, ...]
    data: Path | None
    out: Path
    domains: tuple[str, ...]
    threads: int = 0

    def load(self, progress: ShowProgress | None = None) -> "Comparison":
        """Read the images; decoded ones are kept, and found the next time."""
        loaded = self._load(progress)
        threads = {"training.threads": self.threads} if self.threads else {}
        return Comparison(self, loaded, resolve_settings(loaded.settings, threads))

    def _load(self, progress: ShowProgress | None) -> Recipe:
        if self.recipe == "digits":
            return load_digits(data_folder(self.data), self.domains or DIGITS)
        if self.recipe == "office-caltech":
            return load_office_caltech(data_folder(self.data), self.out / "cache", progress)
        if self.recipe == "domainnet":
            size = resolve_settings(domainnet.SETTINGS, {}).model.image_size
            return domainnet.load_domainnet(data_folder(self.data) / "domainnet", self.out / "cache", size, progress)
        if self.recipe in RECIPES:
            size = resolve_settings({}, {}).model.image_size
            return Recipe(self.recipe, *load_folders(self.folders, self.out / "cache", size, progress), {})
        raise ConfigError(f"there is no recipe named {self.recipe!r}: choose {', '.join(RECIPES[:-1])} or {RECIPES[-1]}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was asked for, with its images and settings."""

    asked: Asked
    recipe: Recipe
    settings: Settings

    @property
    def variants(self) -> list[Settings]:
        """The settings with each length of the schedule and each size of memory.

        Raises:
            ConfigError: there are several, and what is compared takes one.
        """
        asked, own = self.asked, self.settings
        lengths, sizes = asked.epochs or (own.training.epochs,), asked.memory or (own.memory.images_per_domain,)
        if asked.kind is not Kind.METHODS and len(lengths) * len(sizes) > 1:
            raise ConfigError(f"--{asked.kind} takes one number of --epochs and --memory, not several")
        return [_vary(own, epochs, size) for epochs, size in product(lengths, sizes)]

    def pairs(self) -> list[Pairs]:
        """One method at a time on every pair, with the first variant alone."""
        return [
            Pairs(self.recipe, self.variants[0], method, self.asked.seeds, self.asked.out)
            for method in self.asked.methods or ("guarded",)
        ]

    def alone(self) -> list[Grid]:
        """The source and one target, for each target."""
        source, *targets = self.recipe.domains
        recipes = [replace(self.recipe, domains=(source, target)) for target in targets]
        return [self._grid(recipe, self.variants[0], ALONE_METHODS, recipe.domains[1].name) for recipe in recipes]

    def grids(self) -> Iterator[Grid]:
        """Every cell of it."""
        if self.asked.kind is Kind.PAIRS:
            for pairs in self.pairs():
                yield from pairs.grids()
        elif self.asked.kind is Kind.ALONE:
            yield from self.alone()
        else:
            for settings in (variants := self.variants):
                about = f"{settings.training.epochs} epochs, memory {settings.memory.images_per_domain}"
                yield self._grid(self.recipe, settings, DEFAULT_METHODS, about if len(variants) > 1 else "")

    def _grid(self, recipe: Recipe, settings: Settings, usual: Sequence[str], about: str) -> Grid:
        return Grid(recipe, settings, self.asked.methods or usual, self.asked.seeds, self.asked.out, about)


def _vary(settings: Settings, epochs: int, images: int) -> Settings:
    training = settings.training.model_copy(update={"epochs": epochs})
    memory = settings.memory.model_copy(update={"images_per_domain": images})
    return settings.model_copy(update={"training": training, "memory": memory})
