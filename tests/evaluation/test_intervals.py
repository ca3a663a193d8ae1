"""Intervals agree with an independent implementation and keep their promise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from adaptd.evaluation.intervals import wilson

counts = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_agrees_with_scipy(counted, confidence):
    """The interval is scipy's Wilson interval, holds the accuracy and lies within 0 … 1."""
    correct, n = counted
    low, high = wilson(correct, n, confidence)
    reference = binomtest(correct, n).proportion_ci(confidence, method="wilson")
    assert (low, high) == pytest.approx((reference.low, reference.high), abs=1e-9)
    assert 0 <= low <= correct / n <= high <= 1


@pytest.mark.parametrize(("correct", "n"), [(0, 0), (3, 2), (-1, 5)])
def test_no_measurement_no_interval(correct, n):
    """Counts that cannot be are errors."""
    with pytest.raises(ValueError, match="not a measurement"):
        wilson(correct, n)
