"""The closest vector to g_t that no constraint objects to (Eq. 11), from inner products alone.

Nothing here knows how long the vectors are: `GradientRows` multiplies them out and puts the answer together.
The paper's dual (Eq. 12) has a sign error; stationarity of the Lagrangian gives w = g_t + Σ uᵢgᵢ with u ≥ 0.
"""

from dataclasses import dataclass
from math import isfinite, sqrt

import torch
from torch import Tensor

from adaptd.learning.grcl.active_set import PARALLEL, project_on_many


@dataclass(frozen=True, slots=True)
class Projection:
    """w = g_t + Σ uᵢgᵢ: the multipliers u ≥ 0 in the paper's scale, one for each constraint gradient given."""

    multipliers: tuple[float, ...]


def project(gram: Tensor) -> Projection | None:
    """Solve Eq. 11 for the Gram matrix of (g_t, g_1, …, g_k); None if any gradient holds NaN or infinity.

    A zero gradient constrains nothing and gets u = 0.
    """
    if not bool(torch.isfinite(gram).all()):  # x·x is not finite if any entry of x is not
        return None
    G: list[list[float]] = gram.tolist()
    norms = [sqrt(G[i][i]) for i in range(len(G))]
    kept = [i for i in range(1, len(G)) if norms[i] > 0]
    # With unit vectors ĝᵢ: how far each constraint is violated by g_t, and the cosines between constraints.
    d = [G[i][0] / norms[i] for i in kept]
    C = [[G[i][j] / (norms[i] * norms[j]) for j in kept] for i in kept]
    multipliers = [0.0] * (len(G) - 1)
    for i, v in zip(kept, _unit_multipliers(d, C), strict=True):
        multipliers[i - 1] = v / norms[i]
    return Projection(tuple(multipliers)) if all(map(isfinite, multipliers)) else None


def _unit_multipliers(d: list[float], C: list[list[float]]) -> tuple[float, ...]:
    if len(d) == 2:
        return project_on_two(d[0], d[1], C[0][1])
    if len(d) == 1:
        return (max(0.0, -d[0]),)
    return project_on_many(d, C)


def project_on_two(a: float, b: float, c: float) -> tuple[float, float]:
    """Coefficients of the unit vectors ŝ and m̂ in w - g, for a = ŝ·g, b = m̂·g, c = ŝ·m̂: the closed form."""
    if a >= 0 and b >= 0:
        return 0.0, 0.0
    sine_squared = (1 - c) * (1 + c)
    if sine_squared <= PARALLEL:
        return (-a, 0.0) if a <= b else (0.0, -b)
    if a < 0 and b - a * c >= 0:
        return -a, 0.0
    if b < 0 and a - b * c >= 0:
        return 0.0, -b
    return (c * b - a) / sine_squared, (c * a - b) / sine_squared
