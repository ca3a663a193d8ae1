"""Pictures as geometry: lines over episodes, points in a plane, colours of a heat map. Templates draw them as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

from adaptd.evaluation.matrix import Entry, Matrix, format_interval

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 28
STYLES = 8
"""Line and point styles in the style sheet."""
HEAT_STEPS = 10


@dataclass(frozen=True, slots=True)
class Mark:
    """A known value on a line: where, what, and whether it is an estimate."""

    x: float
    y: float
    text: str
    is_estimate: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One domain over the episodes."""

    name: str
    style: int
    points: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines with the ticks of both axes as (place, text)."""

    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT


def heat(value: float) -> int:
    """The step of the colour scale for a share."""
    return min(HEAT_STEPS, max(0, round(value * HEAT_STEPS)))


def draw_evolution(matrix: Matrix, columns: Sequence[int], rows: Sequence[int], *, whole: bool = False) -> Chart | None:
    """How these domains fared over these rows of R; None where there is nothing to draw.

    Each since its first episode or, where `whole`, with what is known from before it too.
    """
    since = {j: [(row, matrix.rows[row][j]) for row in rows if whole or row >= matrix.first_rows[j]] for j in columns}
    known = [entry.value for column in since.values() for _, entry in column if entry is not None]
    if not known or not rows:
        return None
    low = max(0.0, min(int(min(known) * 10) / 10, 0.9))

    def place(row: int, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * ((row - rows[0]) / max(1, rows[-1] - rows[0]) if len(rows) > 1 else 0.5)
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (1 - low))
        return round(x, 1), round(y, 1)

    lines = []
    for number, (j, column) in enumerate(since.items()):
        marks = tuple(_mark(place(row, entry.value), matrix, row, entry) for row, entry in column if entry is not None)
        points = " ".join(f"{mark.x},{mark.y}" for mark in marks)
        lines.append(Line(matrix.domains[j], number % STYLES, points, marks))
    stride = max(1, -(-len(rows) // 10))
    x_ticks = tuple((place(row, low)[0], str(matrix.episodes[row])) for row in rows[::stride])
    return Chart(tuple(lines), x_ticks, tuple((place(rows[0], value)[1], f"{100 * value:.0f}") for value in _ticks(low)))


def _ticks(low: float) -> list[float]:
    """Round shares from 1 down to the lowest, at most six."""
    step = next(step for step in (2, 5, 10, 20) if 100 * (1 - low) <= 5.5 * step)
    return [percent / 100 for percent in range(100, round(100 * low) - 1, -step)]


def _mark(at: tuple[float, float], matrix: Matrix, row: int, entry: Entry) -> Mark:
    text = f"after episode {matrix.episodes[row]}: {100 * entry.value:.1f} % {entry.kind}{format_interval(entry.low, entry.high)}"
    return Mark(*at, text, entry.kind == "estimated")
