"""How far estimates without labels are off. `python -m benchmarks.estimates --help`.

Trains sequences of versions with labels hidden and a share of every target held out, lets the product's own estimators say how
good every stored version is on every target, and compares with the labels. Goes on where it stopped; cells come seed by seed, so
that a report of what there is can be had at any time with --report-only.
"""

import argparse
import sys
from pathlib import Path

import torch

from adaptd.bench.recipes import Recipe, data_folder, load_digits, load_office_caltech
from benchmarks.estimates.cases import Estimation, read_cases, write_cases
from benchmarks.estimates.report import plot, render
from benchmarks.estimates.versions import Ground, add_options, find_folder, make_ground, make_settings, show_steps, train_versions


def main() -> None:
    """Train and estimate what is missing, then write the report of everything there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="digits", choices=("digits", "office-caltech"))
    parser.add_argument("--methods", default="guarded,grcl")
    add_options(parser)
    parser.add_argument("--report-only", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    out = find_folder(chosen.recipe, chosen)
    if not chosen.report_only:
        ground = make_ground(_load(chosen.recipe, chosen.data, out), chosen.source_images, chosen.images)
        _run(ground, chosen, out)
    cases = [case for file in sorted(out.glob("cases-*.json")) for case in read_cases(file)]
    text = render(cases, chosen.recipe)
    (out / "estimates.md").write_text(text, encoding="utf-8")
    plot(cases, out / "estimates.png", chosen.recipe)
    sys.stdout.write(text)


def _load(recipe: str, data: Path | None, out: Path) -> Recipe:
    folder = data_folder(data)
    return load_digits(folder) if recipe == "digits" else load_office_caltech(folder, out / "cache")


def _run(ground: Ground, chosen: argparse.Namespace, out: Path) -> None:
    estimation = Estimation(ground, make_settings(ground.recipe, chosen, 0), out / "checks")
    for seed in map(int, chosen.seeds.split(",")):
        for method in chosen.methods.split(","):
            file = out / f"cases-{method}-{seed}.json"
            if not file.exists():
                files = train_versions(
                    ground, make_settings(ground.recipe, chosen, seed), method, out, show_steps(f"{method} {seed}")
                )
                write_cases(file, estimation.run(method, seed, files))
            sys.stderr.write(f"done: {method} {seed}\n")


if __name__ == "__main__":
    main()
