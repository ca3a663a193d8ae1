"""The same comparison with several lengths of the schedule or sizes of memory: the paper's tables 3 and 4."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adaptd.bench import paper
from adaptd.bench.cell import ORACLE
from adaptd.bench.report import write_report
from adaptd.bench.tables import percent, table_line
from adaptd.evaluation.plots import Line, plot_sweep

COLUMNS = ("method", "epochs", "memory", "seeds", "ACC", "BWT", "source at the end", "steps", "minutes", "paper's ACC")
PAPER_EPOCHS, PAPER_MEMORY = 240, 1024
"""The paper varies one of them, and keeps the other at this."""


def write_sweep(variants: Sequence[dict[str, Any]], out: Path) -> None:
    """The report of each variant in a folder of its own; above them all rows together, their table and a picture."""
    for results in variants:
        write_report(results, out / f"epochs-{_epochs(results)}-memory-{_memory(results)}")
    rows = [one for results in variants for one in results["rows"]]
    first = variants[0]
    merged = first | {"rows": rows, "commits": sorted({one["commit"] for one in rows})}
    (out / "results.json").write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    (out / "table.md").write_text(render_sweep(merged), encoding="utf-8")
    for key in ("epochs", "memory"):
        if len({one[key] for one in rows}) > 1:
            plot_sweep(_lines(merged, key), key, out / f"sweep-{key}.png", merged["recipe"])


def render_sweep(merged: dict[str, Any]) -> str:
    """A line for each method and variant."""
    lines = [
        f"# {merged['recipe']}",
        "",
        f"Mean ± standard deviation over seeds, in percent. Commit {', '.join(merged['commits'])}.",
        "",
        merged["caveats"],
        "",
        table_line(COLUMNS),
        table_line(["---"] * len(COLUMNS)),
    ]
    for (method, epochs, memory), rows in _groups(merged).items():
        values = (percent(one[key] for one in rows) for key in ("acc", "bwt"))
        source = percent(one["R"][-1][0] for one in rows)
        minutes = statistics.mean(one["seconds"] for one in rows) / 60
        said = _find_paper(merged["recipe"], method, epochs, memory)
        told = "–" if said is None else f"{said:.2f}"
        numbers = (str(epochs), str(memory), str(len(rows)))
        lines.append(table_line((method, *numbers, *values, source, f"{rows[0]['steps']:,}", f"{minutes:.1f}", told)))
    return "\n".join(lines) + "\n"


def _find_paper(recipe: str, method: str, epochs: int, memory: int) -> float | None:
    """What the paper has for GRCL with these; None where it has nothing."""
    if method != "grcl":
        return None
    if memory == PAPER_MEMORY and epochs in paper.EPOCHS.get(recipe, {}):
        return paper.EPOCHS[recipe][epochs]
    return paper.MEMORY.get(recipe, {}).get(memory) if epochs == PAPER_EPOCHS else None


def _lines(merged: dict[str, Any], key: str) -> list[Line]:
    """ACC of each method by what was varied, other things equal; the paper's beside them."""
    other = "memory" if key == "epochs" else "epochs"
    found: dict[str, list[tuple[float, float]]] = {}
    for (method, epochs, memory), rows in _groups(merged).items():
        if method == ORACLE:
            continue
        at, rest = (epochs, memory) if key == "epochs" else (memory, epochs)
        many = len({one[other] for one in merged["rows"]}) > 1
        name = f"{method}, {other} {rest}" if many else method
        found.setdefault(name, []).append((at, 100 * statistics.mean(one["acc"] for one in rows)))
    said = (paper.EPOCHS if key == "epochs" else paper.MEMORY).get(merged["recipe"], {})
    lines = [Line(name, sorted(points)) for name, points in found.items()]
    return [*lines, Line("grcl in the paper", sorted(said.items()))] if said else lines


def _groups(merged: dict[str, Any]) -> dict[tuple[str, int, int], list[dict[str, Any]]]:
    groups: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for one in merged["rows"]:
        groups.setdefault((one["method"], one["epochs"], one["memory"]), []).append(one)
    return groups


def _epochs(results: dict[str, Any]) -> int:
    return int(results["settings"]["training"]["epochs"])


def _memory(results: dict[str, Any]) -> int:
    return int(results["settings"]["memory"]["images_per_domain"])
