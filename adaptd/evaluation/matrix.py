"""R with its provenance: what is known of each domain after each episode, and how. Standard library only, for `status`.

The metrics over it are in `metrics`; finding the accuracies is `evaluator`'s.
"""

import csv
from dataclasses import dataclass
from io import StringIO
from typing import Any

from adaptd.records import AccuracyKind


@dataclass(frozen=True, slots=True)
class Entry:
    """One known accuracy: from `n` labelled images, or estimated on `n` unlabelled ones.

    `low` and `high` are its interval, `held_out` says of an estimate that no episode learned from its images.
    """

    value: float
    kind: AccuracyKind
    n: int | None = None
    low: float | None = None
    high: float | None = None
    held_out: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:  # also refuses NaN
            raise ValueError(f"an accuracy is between 0 and 1, not {self.value}")

    @property
    def is_on_own_ground(self) -> bool:
        """Whether it was estimated on images that were learned from, where a model flatters itself."""
        return self.kind is AccuracyKind.ESTIMATED and not self.held_out


Row = tuple[Entry | None, ...]

EXTENT = ("n", "low", "high", "held_out")
"""What is told of an entry beside its value and its kind."""


def format_interval(low: float | None, high: float | None, sign: str = "") -> str:
    """` (58–83)`, in percent; empty where there is none."""
    return "" if low is None or high is None else f" ({100 * low:.0f}–{100 * high:.0f}{sign})"


@dataclass(frozen=True, slots=True)
class Matrix:
    """`R[t, j]`: accuracy on domain j after episode t; None where it is not known.

    Args:
        domains: names in the order of their first episodes; domain 0 is the source.
        episodes: the episodes' numbers, one for each row, ascending.
        rows: one entry for each domain, for each episode.
        first_rows: for each domain, the row of the first episode that adapted to it; 0 for the source. When left out,
            domain j was adapted to in row j, as in the paper.
        forgotten: domains that a person let go: their columns are history, later rows have no entry for them.
    """

    domains: tuple[str, ...]
    episodes: tuple[int, ...]
    rows: tuple[Row, ...]
    first_rows: tuple[int, ...] = ()
    forgotten: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.first_rows:
            object.__setattr__(self, "first_rows", tuple(range(len(self.domains))))
        if len(self.rows) != len(self.episodes) or any(len(row) != len(self.domains) for row in self.rows):
            raise ValueError(f"R must have {len(self.episodes)} rows of {len(self.domains)} entries")
        if len(set(self.domains)) != len(self.domains) or list(self.episodes) != sorted(set(self.episodes)):
            raise ValueError("domains must be distinct and episodes ascending")
        if len(self.first_rows) != len(self.domains) or list(self.first_rows) != sorted(set(self.first_rows)):
            raise ValueError("domains must be in the order of their first episodes")
        if self.rows and self.domains and (self.first_rows[0] != 0 or self.first_rows[-1] >= len(self.rows)):
            raise ValueError("the source comes first, and each domain's first episode has a row")

    @property
    def last(self) -> Row:
        """How good the newest model is."""
        return self.rows[-1] if self.rows else ()

    def begin(self, column: int) -> int:
        """The row in which a domain's story begins: the newest before its first episode in which it is known, else that one's."""
        first = self.first_rows[column]
        return next((row for row in range(first - 1, -1, -1) if self.rows[row][column] is not None), first)

    def remembered(self) -> "Matrix":
        """Without the columns of forgotten domains."""
        if not self.forgotten:
            return self
        kept = [column for column, name in enumerate(self.domains) if name not in self.forgotten]
        rows = tuple(tuple(row[column] for column in kept) for row in self.rows)
        first_rows = tuple(self.first_rows[column] for column in kept)
        return Matrix(tuple(self.domains[column] for column in kept), self.episodes, rows, first_rows)

    def count(self, kind: AccuracyKind) -> int:
        """How many entries are known in this way."""
        return sum(entry is not None and entry.kind is kind for row in self.rows for entry in row)

    def to_json(self) -> dict[str, Any]:
        """The `matrix` of `adaptd status --json`."""
        return {
            "domains": list(self.domains),
            "episodes": list(self.episodes),
            "R": [[entry and entry.value for entry in row] for row in self.rows],
            "kind": [[entry and entry.kind.value for entry in row] for row in self.rows],
            "forgotten": sorted(self.forgotten),
            **{name: [[entry and getattr(entry, name) for entry in row] for row in self.rows] for name in EXTENT},
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """One for each known entry: episode, domain, accuracy, kind and its extent. Fit for pandas."""
        return [
            {"episode": episode, "domain": domain, "accuracy": entry.value, "kind": entry.kind.value}
            | {name: getattr(entry, name) for name in EXTENT}
            for episode, row in zip(self.episodes, self.rows, strict=True)
            for domain, entry in zip(self.domains, row, strict=True)
            if entry is not None
        ]

    def to_csv(self) -> str:
        """The same as text, for a spreadsheet."""
        text = StringIO()
        writer = csv.DictWriter(text, ["episode", "domain", "accuracy", "kind", *EXTENT], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.to_rows())
        return text.getvalue()
