"""Every ordered pair of domains, and all of them in sequence, forwards and backwards: whom does a method help, and whom harm?"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from statistics import mean
from typing import Any

from adaptd.bench.cell import ORACLE
from adaptd.bench.grid import Grid
from adaptd.bench.recipes import Recipe
from adaptd.bench.stamp import find_commit
from adaptd.bench.tables import table_line
from adaptd.errors import ConfigError
from adaptd.evaluation.plots import plot_gains
from adaptd.project.settings import Settings

NOTICED = 0.01
"""A target that is better or worse by less is unchanged."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """One method on all pairs and both sequences of a recipe, for some seeds."""

    recipe: Recipe
    settings: Settings
    method: str
    seeds: Sequence[int]
    out: Path

    def __post_init__(self) -> None:
        if self.method == ORACLE:
            raise ConfigError("the oracle learns from all domains at once, so there are no pairs for it: choose other --methods")

    def grids(self) -> Iterator[Grid]:
        """The comparisons it is made of: pairs first. Only a domain with labels on its training images can be the source."""
        domains = self.recipe.domains
        sequences = [domains, domains[::-1]] if len(domains) > 2 else []
        for order in (*permutations(domains, 2), *sequences):
            if order[0].train.labels is not None:
                about = " → ".join(domain.name for domain in order)
                yield Grid(replace(self.recipe, domains=order), self.settings, (self.method,), self.seeds, self.out, about)

    def report(self) -> dict[str, Any]:
        """What came of them; sums are over pairs and seeds."""
        rows = [row for grid in self.grids() for row in grid.results()["rows"] if self._is_ours(row)]
        pairs = [_pair(row) for row in rows if len(row["domains"]) == 2]
        sequences = [{key: row[key] for key in ("domains", "seed", "acc", "bwt", "R")} for row in rows if len(row["domains"]) > 2]
        return {
            "schema": "adaptd.pairs/1",
            "recipe": self.recipe.name,
            "method": self.method,
            "commits": sorted({row["commit"] for row in rows}) or [find_commit()],
            "pairs": pairs,
            "sequences": sequences,
        }

    def _is_ours(self, row: dict[str, Any]) -> bool:
        return row["method"] == self.method and row["seed"] in self.seeds


def write_pairs(report: dict[str, Any], out: Path) -> Path:
    """pairs.json, pairs.md and a picture; where the table is."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "pairs.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    gains: dict[tuple[str, str], list[float]] = {}
    for pair in report["pairs"]:
        gains.setdefault((pair["source"], pair["target"]), []).append(pair["gain"])
    means = {pair: 100 * mean(values) for pair, values in gains.items()}
    plot_gains(means, out / "pairs.png", f"{report['recipe']}: {report['method']}")
    (out / "pairs.md").write_text(render_pairs(report), encoding="utf-8")
    return out / "pairs.md"


def render_pairs(report: dict[str, Any]) -> str:
    """Each pair, what they come to, and the sequences."""
    pairs = report["pairs"]
    lines = [f"# {report['recipe']}: {report['method']}, all pairs", "", f"Commit {', '.join(report['commits'])}.", ""]
    lines += ["| source | target | seed | target before → after | gain | source |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_line(pair) for pair in pairs]
    gains = [pair["gain"] for pair in pairs]
    helped, harmed = sum(gain > NOTICED for gain in gains), sum(gain < -NOTICED for gain in gains)
    worst = min(pairs, key=lambda pair: pair["gain"])
    told = (
        f"Of {len(pairs)} pairs {helped} helped, {len(pairs) - helped - harmed} unchanged (within {100 * NOTICED:g} point), "
        f"{harmed} harmed; mean gain {100 * mean(gains):+.1f} points; the worst is {worst['source']} → {worst['target']}, "
        f"{100 * worst['gain']:+.1f}."
    )
    lines += ["", told, ""]
    for row in report["sequences"]:
        backward = "–" if row["bwt"] is None else f"{100 * row['bwt']:+.1f}"
        lines.append(f"- {' → '.join(row['domains'])}, seed {row['seed']}: ACC {_percent(row['acc'])}, BWT {backward}")
    return "\n".join(lines) + "\n"


def _pair(row: dict[str, Any]) -> dict[str, Any]:
    (home, before), (still, after) = row["R"]
    source, target = row["domains"]
    refused = [episode["refused"] for episode in row["episodes"] if "refused" in episode]
    return {
        "source": source,
        "target": target,
        "seed": row["seed"],
        "before": before,
        "after": after,
        "gain": after - before,
        "source_before": home,
        "source_after": still,
        "refused": refused[0] if refused else None,
    }


def _line(pair: dict[str, Any]) -> str:
    refused = " (refused)" if pair["refused"] else ""
    cells = (
        pair["source"],
        pair["target"],
        str(pair["seed"]),
        f"{_percent(pair['before'])} → {_percent(pair['after'])}{refused}",
        f"{100 * pair['gain']:+.1f}",
        f"{_percent(pair['source_before'])} → {_percent(pair['source_after'])}",
    )
    return table_line(cells)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
