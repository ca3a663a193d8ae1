"""What R says in single numbers. Pure functions, each with its formula; None, never 0, where a number is undefined.

Symbols: R[t, j] accuracy on domain j after row t; T the last row; N the number of target domains; f(j) the row of the
*first* episode that adapted to domain j, f(0) = 0. With one episode a domain, as in the paper, f(j) = j and T = N.

Why the first: it is what the domain was worth when it was promised to be kept. A second delivery of a domain adds a row
but does not move this mark, so it can neither hide what was lost before nor change a number already reported.

Measured and estimated are never mixed in a difference: if the two sides are known in different ways, there is none.
A mean over domains may span both; how many of its accuracies are of which kind is told beside it.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.records import AccuracyKind


@dataclass(frozen=True, slots=True)
class Metrics:
    """All of them for one R. `measured` and `estimated` count its known entries, with `acc_` in front those of ACC's row."""

    acc: float | None
    acc_targets: float | None
    bwt: float | None
    fwt: float | None
    forgetting: dict[str, float | None]
    measured: int
    estimated: int
    acc_measured: int = 0
    acc_estimated: int = 0

    def to_json(self) -> dict[str, Any]:
        """The `metrics` of `adaptd status --json`."""
        return asdict(self)


def summarize(R: Matrix) -> Metrics:
    """Every metric of R; forgotten domains count in none of them, only their entries are counted."""
    everything, R = R, R.remembered()
    return Metrics(
        acc=acc(R),
        acc_targets=acc_targets(R),
        bwt=bwt(R),
        fwt=fwt(R),
        forgetting=forgetting(R),
        measured=everything.count(AccuracyKind.MEASURED),
        estimated=everything.count(AccuracyKind.ESTIMATED),
        acc_measured=_count(R, AccuracyKind.MEASURED),
        acc_estimated=_count(R, AccuracyKind.ESTIMATED),
    )


def acc(R: Matrix) -> float | None:
    """ACC = 1/(N+1) Σ_{j=0}^{N} R[T, j], the mean over all domains.

    The paper divides these N+1 terms by N, which is an erratum.
    """
    return _mean(_value(entry) for entry in R.last)


def acc_targets(R: Matrix) -> float | None:
    """ACC_targets = 1/N Σ_{j=1}^{N} R[T, j], the mean over the targets; None without targets."""
    return _mean(_value(entry) for entry in R.last[1:])


def bwt(R: Matrix) -> float | None:
    """BWT = mean of R[T, j] - R[f(j), j] over the targets with f(j) < T; None for N < 2.

    With one episode a domain this is the paper's 1/(N-1) Σ_{t=1}^{N-1} (R[N, t] - R[t, t]): the newest domain, whose
    difference is 0 by construction, does not count. Below 0: what was learnt later harmed what was learnt before.
    """
    T = len(R.rows) - 1
    if len(R.domains) < 3:
        return None
    return _mean(_difference(R.rows[T][j], R.rows[f][j]) for j, f in enumerate(R.first_rows) if j > 0 and f < T)


def fwt(R: Matrix) -> float | None:
    """FWT = 1/(N-1) Σ_{j=2}^{N} (R[f(j)-1, j] - R[0, j]); None for N < 2.

    How much earlier targets helped with a domain before it was adapted to. The baseline is the source model where
    Lopez-Paz and Ranzato take a random one; the first target, whose difference is 0 by construction, does not count.
    Needs entries above the diagonal, which exist where test labels do.
    """
    return _mean(_difference(R.rows[f - 1][j], R.rows[0][j]) for j, f in enumerate(R.first_rows) if j > 1)


def forgetting(R: Matrix) -> dict[str, float | None]:
    """F_j = max_{f(j) ≤ t < T} R[t, j] - R[T, j], of each domain, the source too; None for one adapted to in row T.

    Above 0: the domain was once better than it is today. Below 0: it was never as good.
    """
    return {domain: _forgetting(R, j) for j, domain in enumerate(R.domains)}


def _forgetting(R: Matrix, j: int) -> float | None:
    if not R.rows:
        return None
    losses = [_difference(row[j], R.last[j]) for row in R.rows[R.first_rows[j] : -1]]
    known = [loss for loss in losses if loss is not None]
    return max(known) if known and len(known) == len(losses) else None


def _count(R: Matrix, kind: AccuracyKind) -> int:
    return sum(entry is not None and entry.kind is kind for entry in R.last)


def _value(entry: Entry | None) -> float | None:
    return None if entry is None else entry.value


def _difference(later: Entry | None, earlier: Entry | None) -> float | None:
    if later is None or earlier is None or later.kind is not earlier.kind:
        return None
    return later.value - earlier.value


def _mean(values: Iterable[float | None]) -> float | None:
    """None if there is nothing to average, or if any of it is not known."""
    total, count = 0.0, 0
    for value in values:
        if value is None:
            return None
        total, count = total + value, count + 1
    return total / count if count else None
