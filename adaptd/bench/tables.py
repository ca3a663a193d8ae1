"""Cells and lines of the tables that comparisons print."""

import statistics
from collections.abc import Iterable


def percent(values: Iterable[float | None]) -> str:
    """`86.1 ± 1.2`: mean and standard deviation in percent; a dash where nothing is known."""
    known = [value * 100 for value in values if value is not None]
    if not known:
        return "–"
    return f"{statistics.mean(known):.1f}" + (f" ± {statistics.stdev(known):.1f}" if len(known) > 1 else "")


def table_line(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
