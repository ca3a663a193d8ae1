"""`adaptd bench`: methods compared on the same data, seeds and source model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptd.cli.output import say
from adaptd.cli.progress import Show, progress_bar
from adaptd.errors import ConfigError

if TYPE_CHECKING:
    from adaptd.bench.cell import ShowStep
    from adaptd.bench.grid import Grid
    from adaptd.bench.pairs import Pairs
    from adaptd.bench.recipes import Recipe
    from adaptd.project.settings import Settings


def bench(
    recipe: Annotated[str, typer.Argument(help="digits, office-caltech, folders or pairs.")],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[SOURCE TARGET…]", help="For `folders` and `pairs`: class folders, the source first."),
    ] = None,
    methods: Annotated[
        str, typer.Option(metavar="A,B,…", help="Methods to compare; default: the paper's systems, guarded and the oracle.")
    ] = "",
    seeds: Annotated[str, typer.Option(metavar="0,1,…", help="One run of each method a seed.")] = "0",
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over each target domain; default: training.epochs.")] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The benchmark data; default: ADAPTD_BENCH_DATA or ../shared/data.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go; an interrupted comparison goes on there.")] = Path(
        "bench-out"
    ),
    domains: Annotated[
        str, typer.Option(metavar="A,B,…", help="For `digits`: another order or fewer domains, the source first.")
    ] = "",
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs", help="Every ordered pair of domains, and all of them forwards and backwards; `pairs` implies it."
        ),
    ] = False,
) -> None:
    """Compare methods and write results.json, table.md and plots. Settings come from defaults and ADAPTD_SECTION__KEY.

    With --pairs one method at a time (default: guarded) is tried on every ordered pair: pairs.md says whom it helps and harms.
    """
    from adaptd.bench.grid import DEFAULT_METHODS, Grid
    from adaptd.bench.pairs import Pairs

    loaded, settings = _load(recipe, folders or [], data, out, domains, epochs)
    if pairs or recipe == "pairs":
        chosen = _words(methods) or ["guarded"]
        for every in [Pairs(loaded, settings, method, _numbers(seeds), out) for method in chosen]:
            _compare_pairs(every)
    else:
        _compare_methods(Grid(loaded, settings, _words(methods) or DEFAULT_METHODS, _numbers(seeds), out))


def _compare_pairs(every: "Pairs") -> None:
    from adaptd.bench.pairs import write_pairs

    for grid in every.grids():
        _run(grid, " → ".join(domain.name for domain in grid.recipe.domains))
    table = write_pairs(every.report(), every.out / every.method)
    say(*table.read_text(encoding="utf-8").split("\n"))
    say(f"table, picture and pairs.json in {table.parent}", err=True)


def _compare_methods(grid: "Grid") -> None:
    from adaptd.bench.report import write_report

    count, out = _run(grid), grid.out
    results = grid.results()
    write_report(results, out)
    say(*(out / "table.md").read_text(encoding="utf-8").split("\n"))
    say(f"{count} of {len(grid.cells)} cells run now; results and plots in {out}", err=True)


def _run(grid: "Grid", about: str = "") -> int:
    """Run what is missing; how many cells that was."""
    for method, seed in (missing := grid.missing()):
        title = " ".join(filter(None, (method, str(seed), about)))
        with progress_bar(title) as show:
            grid.run(method, seed, _by_phase(show))
        say(f"done: {title}", err=True)
    return len(missing)


def _load(
    recipe: str, folders: list[Path], data: Path | None, out: Path, domains: str, epochs: int | None
) -> "tuple[Recipe, Settings]":
    from adaptd.bench import recipes
    from adaptd.project.layers import resolve_settings

    overrides = {"training.epochs": epochs}
    with progress_bar("reading images") as show:
        if recipe == "digits":
            loaded = recipes.load_digits(recipes.data_folder(data), _words(domains) or recipes.DIGITS)
        elif recipe == "office-caltech":
            loaded = recipes.load_office_caltech(recipes.data_folder(data), out / "cache", show)
        elif recipe in {"folders", "pairs"}:
            size = resolve_settings({}, overrides).model.image_size
            loaded = recipes.Recipe(recipe, *recipes.load_folders(folders, out / "cache", size, show), {})
        else:
            raise ConfigError(f"there is no recipe named {recipe!r}: choose digits, office-caltech, folders or pairs")
    return loaded, resolve_settings(loaded.settings, overrides)


def _by_phase(show: Show) -> "ShowStep":
    def show_part(title: str, done: int, total: int) -> None:
        name, _, phase = title.partition(", ")
        show(done, total, name, phase=phase)

    return show_part


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise ConfigError(f"--seeds {text!r}: give whole numbers, such as 0,1,2") from None
