"""Results as people read them: table.md and plots."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adaptd.bench import paper
from adaptd.bench.cell import ORACLE
from adaptd.bench.tables import percent, table_line
from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.evaluation.plots import plot_comparison, plot_matrix
from adaptd.records import AccuracyKind

BASELINE = "source-only"
PAPER = "paper's ACC / BWT"
COLUMNS = ("method", "ACC", "ACC_targets", "BWT", "source at the end", "worst source change", "gap closed", "steps", "minutes")


def write_report(results: dict[str, Any], out: Path) -> None:
    """results.json, table.md, a heat map for each method and the comparison."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (out / "table.md").write_text(render_tables(results), encoding="utf-8")
    runs = {method: [_matrix(row) for row in rows] for method, rows in _by_method(results).items()}
    for method, matrices in runs.items():
        plot_matrix(
            matrices[0],
            out / f"matrix-{method}.png",
            f"{results['recipe']}: {_name(method)}, seed {_by_method(results)[method][0]['seed']}",
        )
    compared = {method: matrices for method, matrices in runs.items() if method != ORACLE}
    if compared:
        plot_comparison(compared, out / "comparison.png", results["recipe"])


def render_tables(results: dict[str, Any]) -> str:
    """The comparison, then what happened to the losses that the constraints protect."""
    groups, said = _by_method(results), results["recipe"] in paper.TABLES
    columns = (*COLUMNS, PAPER) if said else COLUMNS
    seeds = sorted({row["seed"] for row in results["rows"]})
    lines = [
        f"# {results['recipe']}",
        "",
        f"Seeds {', '.join(map(str, seeds))}; mean ± standard deviation over seeds, in percent. {_made_by(results)}",
        "`oracle` is trained with every domain's labels: a ceiling for this harness, not a method.",
        "",
        results["caveats"],
        "",
        table_line(columns),
        table_line(["---"] * len(columns)),
    ]
    for method, rows in groups.items():
        cells = _summary_cells(method, rows, groups)
        lines.append(table_line([*cells, paper.tell(results["recipe"], method)] if said else cells))
    return "\n".join([*lines, "", *_first_target_table(groups), "", *_loss_table(groups)]) + "\n"


def _made_by(results: dict[str, Any]) -> str:
    """The commit of all cells, or that they were made by several, and which by which."""
    cells: dict[str, list[str]] = {}
    for row in results["rows"]:
        cells.setdefault(row["commit"], []).append(f"{row['method']} {row['seed']}")
    if len(cells) <= 1:
        return f"Commit {next(iter(cells), 'unknown')}."
    each = "; ".join(f"{commit}: {', '.join(names)}" for commit, names in cells.items())
    return f"**Made by several commits**, which may differ in more than the methods: {each}."


def _summary_cells(method: str, rows: Sequence[dict[str, Any]], groups: dict[str, list[dict[str, Any]]]) -> list[str]:
    changes = [
        min(row["R"][t][0] for t in range(1, len(row["R"]))) - row["R"][0][0] for row in rows if row["R"][0][0] is not None
    ]
    return [
        _name(method),
        *(percent(row[key] for row in rows) for key in ("acc", "acc_targets", "bwt")),
        percent(row["R"][-1][0] for row in rows),
        f"{min(changes) * 100:+.1f}" if changes else "–",
        _gap_closed(rows, groups),
        f"{rows[0]['steps']:,}",
        f"{statistics.mean(row['seconds'] for row in rows) / 60:.1f}",
    ]


def _gap_closed(rows: Sequence[dict[str, Any]], groups: dict[str, list[dict[str, Any]]]) -> str:
    """How much of the way from source-only to the oracle a method goes, by mean ACC."""
    low, high = (_mean_acc(groups.get(name, [])) for name in (BASELINE, ORACLE))
    own = _mean_acc(rows)
    if low is None or high is None or own is None or high <= low:
        return "–"
    return f"{(own - low) / (high - low) * 100:.0f} %"


def _first_target_table(groups: dict[str, list[dict[str, Any]]]) -> list[str]:
    """How the first target fares as domains come: the paper's figure 3, whose left part of the picture is the same."""
    compared = {method: rows for method, rows in groups.items() if method != ORACLE}
    if not compared:
        return []
    domains = next(iter(compared.values()))[0]["domains"]
    head = ("method", "before", *(f"after {name}" for name in domains[1:]))
    lines = [f"Accuracy on {domains[1]}, the first target, as domains come (the paper's figure 3).", ""]
    lines += [table_line(head), table_line(["---"] * len(head))]
    for method, rows in compared.items():
        lines.append(table_line([method, *(percent(row["R"][t][1] for row in rows) for t in range(len(domains)))]))
    return lines


def _loss_table(groups: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Cross-entropy over the whole source and all memories, before and after each episode."""
    head = (
        "method",
        "episode",
        "source loss",
        "memory loss",
        "source constraint active",
        "memory constraint active",
        "memory purity",
    )
    lines = ["Losses over the whole source and all memories before → after each episode: what the constraints protect.", ""]
    lines += [table_line(head), table_line(["---"] * len(head))]
    for method, rows in groups.items():
        if method in {BASELINE, ORACLE}:
            continue
        for number, episodes in enumerate(zip(*(row["episodes"] for row in rows), strict=True), 1):
            active = [percent(e["constraint_active_ratio"].get(part) for e in episodes) for part in ("source", "memory")]
            losses = [_change([e["cross_entropy"][part] for e in episodes]) for part in ("source", "memory")]
            purity = percent(e["memory_purity"] for e in episodes)
            refusals = sum("refused" in e for e in episodes)
            told = f" (refused {refusals} of {len(episodes)} times)" if refusals else ""
            lines.append(table_line([_name(method), f"{number} {episodes[0]['domain']}{told}", *losses, *active, purity]))
    return lines


def _by_method(results: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in results["rows"]:
        groups.setdefault(row["method"], []).append(row)
    return groups


def _matrix(row: dict[str, Any]) -> Matrix:
    entries = tuple(tuple(None if v is None else Entry(v, AccuracyKind.MEASURED) for v in values) for values in row["R"])
    return Matrix(tuple(row["domains"]), tuple(range(len(entries))), entries)


def _mean_acc(rows: Sequence[dict[str, Any]]) -> float | None:
    values = [row["acc"] for row in rows if row["acc"] is not None]
    return statistics.mean(values) if values else None


def _change(losses: Sequence[dict[str, float | None]]) -> str:
    before = [loss["before"] for loss in losses if loss["before"] is not None]
    after = [loss["after"] for loss in losses if loss["after"] is not None]
    return f"{statistics.mean(before):.3f} → {statistics.mean(after):.3f}" if before and after else "–"


def _name(method: str) -> str:
    return f"{method} (harness only)" if method == ORACLE else method
