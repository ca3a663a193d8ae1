"""How values become words on a page: shares, moments, durations, and names that would rather not be seen as they are."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from adaptd.evaluation.matrix import format_interval
from adaptd.text import is_hidden

NOTHING = "–"


def make_visible(value: Any) -> Any:
    """Text with every character shown: one that breaks lines, turns the direction or hides is named by its number.

    Every value of every template goes through this, before it is escaped. Markup and other kinds of values stay.
    """
    if type(value) is not str or value.isprintable():
        return value
    return "".join(f"⟨U+{ord(c):04X}⟩" if is_hidden(c) else c for c in value)


def percent(share: float | None, digits: int = 1) -> str:
    """0.912 → 91.2 %."""
    return NOTHING if share is None else f"{100 * share:.{digits}f} %"


def interval(entry: Mapping[str, Any], sign: str = " %") -> str:
    """Of an accuracy: ` (58–83 %)`; empty where there is none."""
    return format_interval(entry.get("low"), entry.get("high"), sign)


def points(change: float | None) -> str:
    """0.012 → +1.2, a difference of two shares."""
    if change is None:
        return NOTHING
    return "0.0" if abs(change) < 0.0005 else f"{100 * change:+.1f}".replace("-", "−")


def moment(when: datetime | str | float | None) -> str:
    """In UTC, to the minute: pages are read in other time zones than the daemon's."""
    if when is None:
        return NOTHING
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    elif isinstance(when, int | float):
        when = datetime.fromtimestamp(when, UTC)
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def duration(seconds: float | None) -> str:
    """Roughly, in the two largest units."""
    if seconds is None:
        return NOTHING
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number: int) -> str:
    """1234567 → 1 234 567, with spaces that do not break."""
    return f"{number:,}".replace(",", "\u202f")
