"""Charts as tables, which the pages' script draws with uPlot; colours of heat maps. Nothing here draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adaptd.evaluation.matrix import Entry, Matrix, format_interval

LINES = 8
"""Lines that can be told apart in one chart."""
COLOURS, SHAPES = 12, 3
"""Of points in the style sheet; together they tell as many classes apart as their product."""
HEAT_STEPS = 10
BINS = 10
"""Bars of a histogram of shares."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a chart, in its unit; `note` is told where one points at it."""

    value: float
    note: str = ""
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns over x: lines, or bars side by side.

    Args:
        x: what the first column is.
        unit: of all values; empty where they are mere numbers.
        names: of the other columns.
        rows: x and the points, None where nothing is known.
        kind: `lines` or `bars`.
    """

    x: str
    unit: str
    names: tuple[str, ...]
    rows: tuple[tuple[float, tuple[Point | None, ...]], ...]
    kind: str = "lines"


def heat(value: float) -> int:
    """The step of the colour scale for a share."""
    return min(HEAT_STEPS, max(0, round(value * HEAT_STEPS)))


def chart_evolution(matrix: Matrix, columns: Sequence[int], rows: Sequence[int]) -> Chart | None:
    """How these domains fared over these rows of R, each from just before its first episode; None where nothing is known."""
    shown = [(row, [_point(matrix, row, j) if row >= matrix.begin(j) else None for j in columns]) for row in rows]
    if not any(point for _, points in shown for point in points):
        return None
    told = tuple((float(matrix.episodes[row]), tuple(points)) for row, points in shown)
    return Chart("after episode", "%", tuple(matrix.domains[j] for j in columns), told)


def _point(matrix: Matrix, row: int, column: int) -> Point | None:
    entry = matrix.rows[row][column]
    return None if entry is None else Point(round(100 * entry.value, 2), describe(entry), entry.kind == "estimated")


def describe(entry: Entry) -> str:
    """How an accuracy is known: `measured (81–85 %) on 1500 images`."""
    on = "" if entry.n is None else f" on {entry.n} images"
    return f"{entry.kind}{format_interval(entry.low, entry.high, ' %')}{on}"


def chart_curves(points: Sequence[tuple[int, Mapping[str, Any]]], key: str, most: int) -> Chart:
    """What an episode told of one kind, step by step, at most so many steps of it: the first and the newest are among them."""
    told = [(step, live.get(key) or {}) for step, live in points]
    told = [(step, values) for step, values in told if values]
    stride = max(1, -(-len(told) // most))
    kept = told[::-1][::stride][::-1]
    if told and kept[0] != told[0]:
        kept = [told[0], *kept]
    names = tuple(dict.fromkeys(name for _, values in told for name in values))
    rows = tuple((float(step), tuple(_value(values.get(name)) for name in names)) for step, values in kept)
    return Chart("step", "", names, rows)


def _value(value: float | None) -> Point | None:
    return None if value is None else Point(round(value, 5))


def chart_confidence(before: Sequence[float], after: Sequence[float]) -> Chart | None:
    """How sure predictions are, before and after: the share of the images in each tenth; None where that is not known."""
    columns = [(name, _shares(values)) for name, values in (("before", before), ("after", after)) if values]
    if not columns:
        return None
    rows = tuple((5 + 10.0 * number, tuple(Point(shares[number]) for _, shares in columns)) for number in range(BINS))
    return Chart("confidence, %", "% of the images", tuple(name for name, _ in columns), rows, "bars")


def _shares(values: Sequence[float]) -> list[float]:
    bins = [0] * BINS
    for value in values:
        bins[min(BINS - 1, int(value * BINS))] += 1
    return [round(100 * count / len(values), 1) for count in bins]
