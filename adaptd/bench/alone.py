"""Each target alone, adapted to from the source: conventional domain adaptation, the paper's figure 4."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from adaptd.bench.grid import Grid
from adaptd.bench.tables import percent, table_line
from adaptd.evaluation.plots import plot_alone


def collect_alone(grids: Sequence[Grid]) -> dict[str, Any]:
    """What came of every target, method and seed."""
    rows = [one for grid in grids for one in grid.results()["rows"] if (one["method"], one["seed"]) in grid.cells]
    return {
        "schema": "adaptd.alone/1",
        "recipe": grids[0].recipe.name,
        "commits": sorted({one["commit"] for one in rows}),
        "methods": list(grids[0].methods),
        "targets": [grid.recipe.domains[1].name for grid in grids],
        "rows": [_shorten(one) for one in rows],
    }


def write_alone(report: dict[str, Any], out: Path) -> Path:
    """alone.json, alone.md and a picture; where the table is."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "alone.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (out / "alone.md").write_text(render_alone(report), encoding="utf-8")
    values = {method: {part: _by_seed(report, method, part) for part in ("source", "target")} for method in report["methods"]}
    plot_alone(values, out / "alone.png", f"{report['recipe']}: each target alone")
    return out / "alone.md"


def render_alone(report: dict[str, Any]) -> str:
    """A line for each method: every target, their mean, and what became of the source."""
    targets = report["targets"]
    lines = [
        f"# {report['recipe']}: each target alone",
        "",
        "Accuracy in percent after adapting the source model to one target; mean ± standard deviation over seeds.",
        f"Commit {', '.join(report['commits'])}.",
        "",
        table_line(("method", *targets, "mean of the targets", "source, mean")),
        table_line(["---"] * (len(targets) + 3)),
    ]
    for method in report["methods"]:
        each = [percent(one["target"] for one in _rows(report, method) if one["name"] == name) for name in targets]
        means = [percent(_by_seed(report, method, part)) for part in ("target", "source")]
        lines.append(table_line((method, *each, *means)))
    return "\n".join(lines) + "\n"


def _shorten(one: dict[str, Any]) -> dict[str, Any]:
    source, target = one["R"][-1]
    return {"method": one["method"], "seed": one["seed"], "name": one["domains"][1], "source": source, "target": target}


def _rows(report: dict[str, Any], method: str) -> Iterable[dict[str, Any]]:
    return (one for one in report["rows"] if one["method"] == method)


def _by_seed(report: dict[str, Any], method: str, part: str) -> list[float]:
    """The mean over targets, for each seed."""
    rows = list(_rows(report, method))
    return [mean(one[part] for one in rows if one["seed"] == seed) for seed in sorted({one["seed"] for one in rows})]
