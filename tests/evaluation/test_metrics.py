"""Golden matrices: every metric is worked out by hand beside them."""

import pytest

from adaptd.evaluation.matrix import Entry, Matrix
from adaptd.evaluation.metrics import acc, acc_targets, bwt, forgetting, fwt, summarize
from adaptd.records import AccuracyKind

M, E = AccuracyKind.MEASURED, AccuracyKind.ESTIMATED


def matrix(*rows, first_rows=(), estimated=()):
    """R from numbers; `estimated` names the (t, j) that are estimates."""
    entries = tuple(
        tuple(None if value is None else Entry(value, E if (t, j) in estimated else M, 100) for j, value in enumerate(row))
        for t, row in enumerate(rows)
    )
    domains = ("source", *(f"d{j}" for j in range(1, len(rows[0]))))
    return Matrix(domains, tuple(range(len(rows))), entries, first_rows)


FIVE = (
    (0.90, 0.50, 0.40, 0.30, 0.20),
    (0.88, 0.80, 0.45, 0.32, 0.20),
    (0.86, 0.78, 0.70, 0.34, 0.25),
    (0.87, 0.76, 0.72, 0.60, 0.30),
    (0.85, 0.75, 0.66, 0.61, 0.50),
)


def test_five_domains():
    """The paper's setting, N = 4."""
    known = matrix(*FIVE)
    assert acc(known) == pytest.approx((0.85 + 0.75 + 0.66 + 0.61 + 0.50) / 5)
    assert acc_targets(known) == pytest.approx((0.75 + 0.66 + 0.61 + 0.50) / 4)
    assert bwt(known) == pytest.approx(((0.75 - 0.80) + (0.66 - 0.70) + (0.61 - 0.60)) / 3)
    assert fwt(known) == pytest.approx(((0.45 - 0.40) + (0.34 - 0.30) + (0.30 - 0.20)) / 3)
    assert forgetting(known) == pytest.approx({"source": 0.05, "d1": 0.05, "d2": 0.06, "d3": -0.01, "d4": None})


def test_acc_is_not_divided_as_in_the_paper():
    """A perfect model has ACC 1; the paper's formula, N+1 terms over N, would give 1.25."""
    perfect = matrix(*([1.0] * 5 for _ in range(5)))
    assert acc(perfect) == 1
    assert bwt(perfect) == 0


def test_source_alone():
    """N = 0: there is a source accuracy, and nothing about targets."""
    known = matrix((0.9,))
    assert summarize(known).to_json() == {
        "acc": 0.9,
        "acc_targets": None,
        "bwt": None,
        "fwt": None,
        "forgetting": {"source": None},
        "measured": 1,
        "estimated": 0,
        "acc_measured": 1,
        "acc_estimated": 0,
    }


def test_one_target():
    """N = 1: transfer is undefined, null and never 0; the source can already be forgotten."""
    known = matrix((0.9, None), (0.8, 0.7))
    assert acc(known) == pytest.approx(0.75)
    assert acc_targets(known) == pytest.approx(0.7)
    assert (bwt(known), fwt(known)) == (None, None)
    assert forgetting(known) == pytest.approx({"source": 0.1, "d1": None})


def test_two_targets():
    """N = 2: one difference each way."""
    known = matrix((0.9, 0.5, 0.4), (0.9, 0.7, 0.5), (0.9, 0.6, 0.8))
    assert bwt(known) == pytest.approx(-0.1)
    assert fwt(known) == pytest.approx(0.1)


def test_no_episode_yet():
    """An empty R has no metrics."""
    known = Matrix((), (), ())
    assert summarize(known).to_json()["acc"] is None
    assert (bwt(known), fwt(known), forgetting(known)) == (None, None, {})


def test_missing_entries_make_null():
    """A metric that needs an unknown entry is null; one that does not is untouched by it."""
    above = [[value if j <= t else None for j, value in enumerate(row)] for t, row in enumerate(FIVE)]
    known = matrix(*above)
    assert fwt(known) is None
    assert bwt(known) == pytest.approx(bwt(matrix(*FIVE)))
    assert forgetting(known) == pytest.approx(forgetting(matrix(*FIVE)))
    above[4][2] = None
    known = matrix(*above)
    assert (acc(known), acc_targets(known), bwt(known)) == (None, None, None)
    assert forgetting(known)["d2"] is None
    assert forgetting(known)["d1"] == pytest.approx(0.05)


def test_a_second_batch_counts_from_the_first():
    """d1, d2, then d1 again: both targets count, each against its own first episode; the divisor is their number."""
    known = matrix((0.9, 0.5, 0.4), (0.9, 0.7, 0.5), (0.9, 0.6, 0.8), (0.9, 0.75, 0.72), first_rows=(0, 1, 2))
    assert bwt(known) == pytest.approx(((0.75 - 0.7) + (0.72 - 0.8)) / 2)
    assert forgetting(known) == pytest.approx({"source": 0.0, "d1": -0.05, "d2": 0.08})


def test_two_batches_before_the_next_domain():
    """d1 twice, then d2: the forward look is from the row just before d2's first, the mark of d1 stays its first."""
    known = matrix((0.9, 0.5, 0.4), (0.9, 0.7, 0.45), (0.9, 0.8, 0.5), (0.9, 0.6, 0.8), first_rows=(0, 1, 3))
    assert bwt(known) == pytest.approx(0.6 - 0.7)
    assert fwt(known) == pytest.approx(0.5 - 0.4)
    assert forgetting(known)["d1"] == pytest.approx(0.8 - 0.6)


def test_second_batches_of_the_only_target_are_no_transfer():
    """With one target there is nobody to transfer from, however many episodes it had."""
    assert bwt(matrix((0.9, 0.5), (0.9, 0.7), (0.9, 0.8), first_rows=(0, 1))) is None


def test_measured_and_estimated_are_never_subtracted():
    """A difference between the two kinds is null; within one kind it is not, and means tell what they are made of."""
    mixed = matrix(*FIVE, estimated={(1, 1)})
    assert bwt(mixed) is None
    assert forgetting(mixed)["d1"] is None
    assert forgetting(mixed)["d2"] == pytest.approx(0.06)
    column = matrix(*FIVE, estimated={(t, 1) for t in range(5)})
    assert bwt(column) == pytest.approx(bwt(matrix(*FIVE)))
    assert (summarize(column).measured, summarize(column).estimated) == (20, 5)
