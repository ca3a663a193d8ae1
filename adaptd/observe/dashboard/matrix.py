"""The matrix page: a window on R, which may have hundreds of rows and columns, as heat map and as lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.evaluation.metrics import summarize
from adaptd.observe.dashboard.charts import LINES, chart_evolution, heat

ROWS, COLUMNS = 24, 12
"""What is shown at once, beside the source."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of R is shown, and where the next ones begin; None at the ends."""

    rows: range
    columns: tuple[int, ...]
    older: int | None
    newer: int | None
    earlier: int | None
    later: int | None
    row: int
    column: int


def view_matrix(matrix: Matrix, row: int | None = None, column: int | None = None) -> dict[str, Any]:
    """A window that begins at a row and column; the newest part by default."""
    window = _window(matrix, row, column)
    return {
        "matrix": matrix,
        "window": window,
        "rows": [(matrix.episodes[t], [_cell(matrix.rows[t][j]) for j in window.columns]) for t in window.rows],
        "domains": [matrix.domains[j] for j in window.columns],
        "chart": chart_evolution(matrix, _few(window.columns), window.rows),
        "metrics": summarize(matrix).to_json(),
    }


def _window(matrix: Matrix, row: int | None, column: int | None) -> Window:
    rows, columns = len(matrix.rows), len(matrix.domains)
    last_row, last_column = max(0, rows - ROWS), max(1, columns - COLUMNS)
    top = last_row if row is None else min(max(row, 0), last_row)
    left = last_column if column is None else min(max(column, 1), last_column)
    right = min(columns, left + COLUMNS)
    return Window(
        rows=range(top, min(rows, top + ROWS)),
        columns=tuple([0] if columns else []) + tuple(range(left, right)),
        older=max(0, top - ROWS) if top > 0 else None,
        newer=top + ROWS if top < last_row else None,
        earlier=max(1, left - COLUMNS) if left > 1 else None,
        later=left + COLUMNS if left < last_column else None,
        row=top,
        column=left,
    )


def _few(columns: Sequence[int]) -> list[int]:
    """As many lines as can be told apart: the source and the newest."""
    return [*columns[:1], *columns[1:][-(LINES - 1) :]]


def _cell(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    shown = {"value": entry.value, "kind": str(entry.kind), "n": entry.n, "low": entry.low, "high": entry.high}
    return shown | {"heat": heat(entry.value), "flatters": entry.is_on_own_ground}
