"""The projection of Eq. 11, against its own definition and an independent solver."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from adaptd.learning.grcl import Projection, project
from adaptd.learning.grcl.active_set import PARALLEL

seeds = st.integers(0, 2**32 - 1)
exponents = st.floats(-6, 6)


def projected(g, constraints) -> tuple[np.ndarray, Projection]:
    """The vector w in float64, from the Gram matrix alone."""
    rows = np.vstack([g, *constraints])
    projection = project(torch.from_numpy(rows @ rows.T))
    assert projection is not None
    return g + np.array(projection.multipliers) @ rows[1:], projection


def closest(g, constraints) -> np.ndarray:
    """The same by scipy: the residual of non-negative least squares on unit columns is the projection."""
    units = np.array([c / np.linalg.norm(c) for c in constraints])
    v, _ = nnls(units.T, -g)
    return g + v @ units


def draw(seed: int, count: int, size: int, scale=()) -> list[np.ndarray]:
    """Random vectors with a common tilt, so that all sign patterns of their inner products occur."""
    rng = np.random.default_rng(seed)
    tilt = rng.normal(size=size) * rng.choice([0, 1, 3])
    vectors = rng.normal(size=(count, size)) + rng.choice([-1, 1], size=(count, 1)) * tilt
    return [v / np.linalg.norm(v) * 10.0**e for v, e in zip(vectors, scale or [0] * count, strict=True)]


def rounding(s, m) -> float:
    """What inner products in float64 leave open, for |g| = 1: the nearer two constraints are to parallel, the more."""
    cosine = s @ m / (np.linalg.norm(s) * np.linalg.norm(m))
    return 1e-9 + 16 * np.finfo(float).eps / max(PARALLEL, (1 - cosine) * (1 + cosine))


@settings(max_examples=600)
@given(seeds, st.integers(2, 12), st.tuples(exponents, exponents, exponents))
@example(4845271, 2, (0.0, 0.0, 0.0))  # constraints that are opposite but for 1e-4
def test_two_constraints_hold_and_w_is_the_closest_vector(seed, size, scale):
    """With norms from 1e-6 to 1e6: both constraints hold, u ≥ 0, w = g if none is violated, and w is scipy's answer."""
    g, s, m = draw(seed, 3, size, scale)
    w, projection = projected(g, [s, m])
    tolerance = rounding(s, m) * np.linalg.norm(g)
    for constraint, u in zip((s, m), projection.multipliers, strict=True):
        assert u >= 0
        assert w @ constraint >= -tolerance * np.linalg.norm(constraint)
    if g @ s >= 0 and g @ m >= 0:
        np.testing.assert_array_equal(w, g)
        assert projection.multipliers == (0, 0)
    np.testing.assert_allclose(w, closest(g, [s, m]), atol=tolerance)


@settings(max_examples=400)
@given(seeds, st.integers(3, 9), st.integers(2, 30), st.booleans())
def test_many_constraints_agree_with_an_independent_solver(seed, count, size, repeat):
    """The per-domain form finds scipy's vector, also with more constraints than dimensions and with repeated ones."""
    g, *constraints = draw(seed, count + 1, size)
    if repeat:
        constraints[1] = 7.0 * constraints[0]
    w, projection = projected(g, constraints)
    assert min(projection.multipliers) >= 0
    for constraint in constraints:
        assert w @ constraint >= -1e-5
    np.testing.assert_allclose(w, closest(g, constraints), atol=2e-5)


def test_the_sign_is_right():
    """With w = g + u₁g_s a gradient that climbs the source loss is bent to its tangent, not pushed further."""
    w, projection = projected(np.array([1.0, -2.0]), [np.array([0.0, 4.0])])
    np.testing.assert_allclose(w, [1.0, 0.0])
    assert projection.multipliers == (0.5,)


@pytest.mark.parametrize(
    ("g", "w", "u"),
    [
        ([1, 1], [1, 1], (0, 0)),
        ([-1, 2], [0, 2], (0.5, 0)),
        ([2, -1], [2, 0], (0, 0.25)),
        ([-1, -1], [0, 0], (0.5, 0.25)),
    ],
)
def test_the_four_cases_by_hand(g, w, u):
    """Orthogonal constraints of lengths 2 and 4: each case of the closed form, multipliers in the paper's scale."""
    found, projection = projected(np.array(g, float), [np.array([2.0, 0.0]), np.array([0.0, 4.0])])
    np.testing.assert_allclose(found, w, atol=1e-15)
    assert projection.multipliers == pytest.approx(u)


@pytest.mark.parametrize("tiny", [1.0, 1e-2, 1e-4, 1e-6])
def test_no_violation_is_left_at_small_norms(tiny):
    """An absolute epsilon would leave most of the violation of a small gradient; here nothing is left."""
    w, _ = projected(tiny * np.array([-1.0, 1.0]), [tiny * np.array([1.0, 0.0])])
    assert abs(w[0]) <= 1e-12 * tiny


def test_a_zero_constraint_is_dropped():
    """A constraint gradient of zeros constrains nothing, and the other one is still met."""
    w, projection = projected(np.array([-1.0, 1.0]), [np.zeros(2), np.array([3.0, 0.0])])
    np.testing.assert_allclose(w, [0.0, 1.0])
    assert projection.multipliers == pytest.approx((0.0, 1 / 3))


def test_parallel_constraints_count_once():
    """Of two parallel constraints the more violated one is met, and the other with it."""
    w, projection = projected(np.array([-1.0, 2.0]), [np.array([1.0, 0.0]), np.array([5.0, 0.0])])
    np.testing.assert_allclose(w, [0.0, 2.0])
    assert sum(u > 0 for u in projection.multipliers) == 1


def test_antiparallel_constraints_leave_the_tangent():
    """Two opposite constraints leave only the movement orthogonal to both."""
    w, projection = projected(np.array([-1.0, 2.0]), [np.array([1.0, 0.0]), np.array([-5.0, 0.0])])
    np.testing.assert_allclose(w, [0.0, 2.0])
    assert [u > 0 for u in projection.multipliers] == [True, False]


@pytest.mark.parametrize("angle", [1e-2, 1e-4, 1e-5, 1e-6, 1e-8])
@pytest.mark.parametrize("side", [1, -1])
def test_nearly_parallel_constraints_are_met_to_their_angle(angle, side):
    """Near-(anti)parallel constraints are met up to the angle at which they count as parallel."""
    s = np.array([1.0, 0.0, 0.0])
    m = np.array([side * np.cos(angle), np.sin(angle), 0.0])
    w, _ = projected(np.array([-1.0, -1.0, 1.0]), [s, m])
    assert w @ s >= -1e-5
    assert w @ m >= -1e-5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_non_finite_gradients_are_refused(bad, row):
    """NaN or infinity in any gradient gives no projection, although `nan < 0` is false."""
    rows = torch.ones(3, 4, dtype=torch.float64)
    rows[row, 2] = bad
    assert project(rows @ rows.T) is None


def test_without_constraints_nothing_changes():
    """With no constraint at all w is g."""
    assert project(torch.ones(1, 1, dtype=torch.float64)) == Projection(())
