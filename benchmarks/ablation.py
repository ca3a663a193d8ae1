"""What each piece of guarded self-training gives on Digits: left out, and alone. `python -m benchmarks.ablation --help`.

Several processes may share an --out: each takes cells that nobody has begun.
"""

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from adaptd.bench.grid import Grid
from adaptd.bench.recipes import data_folder, load_digits
from adaptd.project.layers import resolve_settings

PLAIN = {
    "method.guarded.warp": 0.0,
    "method.guarded.mixup": 0.0,
    "method.guarded.views": 1,
    "method.guarded.propagate": False,
    "method.guarded.curriculum": False,
}
"""Nothing but pseudo-labels where classifier and clusters agree."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "guarded": ("guarded", {}),
    "without the projection": ("self-training", {}),
    "without propagation": ("guarded", {"method.guarded.propagate": False}),
    "without views": ("guarded", {"method.guarded.views": 1}),
    "without warping": ("guarded", {"method.guarded.warp": 0.0}),
    "without mixup": ("guarded", {"method.guarded.mixup": 0.0}),
    "without the curriculum": ("guarded", {"method.guarded.curriculum": False}),
    "without memories": ("guarded", {"training.memory_share": 0.0}),
    "SGD's metric": ("guarded", {"training.optimizer": "sgd"}),
    "plain: none of the pieces": ("guarded", PLAIN),
    "plain + propagation": ("guarded", PLAIN | {"method.guarded.propagate": True}),
    "plain + views": ("guarded", PLAIN | {"method.guarded.views": 4}),
    "plain + warping": ("guarded", PLAIN | {"method.guarded.warp": 1.0}),
    "plain + mixup": ("guarded", PLAIN | {"method.guarded.mixup": None}),
    "plain + curriculum": ("guarded", PLAIN | {"method.guarded.curriculum": True}),
}


def main() -> None:
    """Run what is missing, then print the table of everything there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("bench-ablation"))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--only", default="", help="comma-separated variants; default: all")
    chosen = parser.parse_args()
    recipe = load_digits(data_folder(chosen.data))
    names = [name for name in VARIANTS if not chosen.only or name in chosen.only.split(",")]
    seeds = [int(seed) for seed in chosen.seeds.split(",")]
    grids = {}
    for name, (method, settings) in VARIANTS.items():
        overrides = {"training.epochs": chosen.epochs, **settings}
        grids[name] = Grid(recipe, resolve_settings(recipe.settings, overrides), [method], seeds, chosen.out)
    for name in names:
        for method, seed in grids[name].missing():
            mark = chosen.out / f"begun-{name.replace(' ', '-')}-{seed}"
            try:
                chosen.out.mkdir(parents=True, exist_ok=True)
                mark.touch(exist_ok=False)
            except FileExistsError:
                continue
            sys.stderr.write(f"{name}, seed {seed}\n")
            try:
                grids[name].run(method, seed, lambda _title, _step, _steps: None)
            finally:
                mark.unlink()
    table = render({name: grid.results()["rows"] for name, grid in grids.items()}, grids)
    (chosen.out / "ablation.md").write_text(table)
    sys.stdout.write(table)


def render(rows: dict[str, list[dict[str, Any]]], grids: dict[str, Grid]) -> str:
    """A line for each variant that has results."""
    lines = ["| | seeds | ACC | BWT | source change | by domain |", "| --- | --- | --- | --- | --- | --- |"]
    for name, found in rows.items():
        mine = [row for row in found if row["method"] == grids[name].methods[0]]
        if not mine:
            continue
        change = [row["R"][-1][0] - row["R"][0][0] for row in mine]
        last = [statistics.mean(values) for values in zip(*(row["R"][-1] for row in mine), strict=True)]
        cells = [_show([row[key] for row in mine]) for key in ("acc", "bwt")]
        lines.append(
            f"| {name} | {len(mine)} | {cells[0]} | {cells[1]} | {_show(change)} | {' '.join(f'{100 * v:.1f}' for v in last)} |"
        )
    return "\n".join(lines) + "\n"


def _show(values: list[float]) -> str:
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
