"""`adaptd bench`: methods compared on the same data, seeds and source model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptd.cli.output import say
from adaptd.cli.progress import Show, progress_bar
from adaptd.errors import ConfigError

if TYPE_CHECKING:
    from adaptd.bench.asked import Comparison, Kind
    from adaptd.bench.cell import ShowStep
    from adaptd.bench.grid import Grid


def bench(
    recipe: Annotated[str, typer.Argument(help="digits, office-caltech, domainnet, folders or pairs.")],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[SOURCE TARGET…]", help="For `folders` and `pairs`: class folders, the source first."),
    ] = None,
    methods: Annotated[
        str, typer.Option(metavar="A,B,…", help="Methods to compare; default: the paper's systems, guarded and the oracle.")
    ] = "",
    seeds: Annotated[str, typer.Option(metavar="0,1,…", help="One run of each method a seed.")] = "0",
    epochs: Annotated[
        str,
        typer.Option(metavar="5,20,…", help="Passes over each target, one or several to try; default: training.epochs."),
    ] = "",
    memory: Annotated[
        str,
        typer.Option(
            metavar="256,512,…", help="Images remembered of a domain, one or several to try; default: memory.images_per_domain."
        ),
    ] = "",
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
    alone: Annotated[
        bool, typer.Option("--alone", help="Each target alone, from the source: conventional adaptation, the paper's figure 4.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, each with a cell of its own and its share of the processors.")] = 1,
) -> None:
    """Compare methods and write results.json, table.md and plots. Settings come from defaults and ADAPTD_SECTION__KEY.

    With --pairs one method at a time (default: guarded) is tried on every ordered pair: pairs.md says whom it helps and harms.
    """
    from adaptd.bench.asked import Asked

    asked = Asked(
        recipe,
        _choose_kind(pairs=pairs or recipe == "pairs", alone=alone),
        tuple(folders or ()),
        tuple(_words(methods)),
        _numbers("seeds", seeds, 0),
        _numbers("epochs", epochs, 1),
        _numbers("memory", memory, 1),
        data,
        out,
        tuple(_words(domains)),
    )
    with progress_bar("reading images") as show:
        comparison = asked.load(show)
    _run(comparison, jobs)
    _report(comparison)


def _choose_kind(*, pairs: bool, alone: bool) -> "Kind":
    from adaptd.bench.asked import Kind

    if pairs and alone:
        raise ConfigError("--pairs and --alone are two comparisons: ask for one after the other, with the same --out if you like")
    return Kind.PAIRS if pairs else Kind.ALONE if alone else Kind.METHODS


def _run(comparison: "Comparison", jobs: int) -> None:
    """Run what is missing."""
    from adaptd.bench.jobs import run_in_processes

    grids = list(comparison.grids())
    count = sum(len(grid.missing()) for grid in grids)
    if jobs > 1 and count:
        with progress_bar("cells") as show:
            run_in_processes(comparison, jobs, show)
    else:
        for grid in grids:
            _run_grid(grid)
    say(f"{count} of {sum(len(grid.cells) for grid in grids)} cells run now", err=True)


def _run_grid(grid: "Grid") -> None:
    for method, seed in grid.missing():
        title = " ".join((method, str(seed), grid.about)).strip()
        with progress_bar(title) as show:
            is_run = grid.run(method, seed, _by_phase(show))
        say(f"done: {title}" if is_run else f"left to another process: {title}", err=True)


def _report(comparison: "Comparison") -> None:
    """Write the tables and pictures of what there is, and print the tables."""
    from adaptd.bench.alone import collect_alone, write_alone
    from adaptd.bench.asked import Kind
    from adaptd.bench.pairs import write_pairs
    from adaptd.bench.report import write_report
    from adaptd.bench.sweep import write_sweep

    out = comparison.asked.out
    tables = [out / "table.md"]
    if comparison.asked.kind is Kind.PAIRS:
        tables = [write_pairs(every.report(), out / every.method) for every in comparison.pairs()]
    elif comparison.asked.kind is Kind.ALONE:
        tables = [write_alone(collect_alone(comparison.alone()), out)]
    elif len(variants := [grid.results() for grid in comparison.grids()]) > 1:
        write_sweep(variants, out)
    else:
        write_report(variants[0], out)
    for table in tables:
        say(*table.read_text(encoding="utf-8").split("\n"))
        say(f"results and plots in {table.parent}", err=True)


def _by_phase(show: Show) -> "ShowStep":
    def show_part(title: str, done: int, total: int) -> None:
        name, _, phase = title.partition(", ")
        show(done, total, name, phase=phase)

    return show_part


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(option: str, text: str, least: int) -> tuple[int, ...]:
    words = _words(text)
    if not all(word.isdecimal() and int(word) >= least for word in words):
        raise ConfigError(f"--{option} {text!r}: give whole numbers from {least} on, such as {least},{least + 1}")
    return tuple(dict.fromkeys(map(int, words)))
