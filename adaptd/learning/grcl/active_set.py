"""The projection on any number of constraints (Eq. 8), as non-negative least squares on their cosines.

Lawson and Hanson's active-set method: exact, and finite because every round lowers the objective. The closed form for
two constraints is in `projection`.
"""

import torch

PARALLEL = 1e-11
"""1 - c² below this: two constraints, or one and the span of others, count as parallel. That is 3e-6 radians, where the
rounding of inner products and the leaving out of a constraint cost about the same."""

Matrix = list[list[float]]


def project_on_many(d: list[float], C: Matrix) -> tuple[float, ...]:
    """The v that minimises ½vᵀCv + dᵀv, v ≥ 0, for unit constraints ĝᵢ: d = ĝᵢ·g, C = ĝᵢ·ĝⱼ. Then w = g + Σ vᵢĝᵢ."""
    v = [0.0] * len(d)
    active: list[int] = []
    refused: set[int] = set()
    tolerance = 1e-13 * max(map(abs, d), default=0.0)
    while True:
        slack = {j: d[j] + sum(C[j][i] * v[i] for i in active) for j in range(len(d)) if j not in active}
        violated = [j for j, w_dot_g in slack.items() if w_dot_g < -tolerance and j not in refused]
        if not violated:
            return tuple(v)
        entering = min(violated, key=slack.__getitem__)
        if _distance_squared(C, active, entering) > PARALLEL:
            active.append(entering)
            _optimise(d, C, active, v)
        if entering in active:
            refused.clear()
        else:  # in the span of the active constraints, so met as soon as they are, or violated by rounding only
            refused.add(entering)


def _optimise(d: list[float], C: Matrix, active: list[int], v: list[float]) -> None:
    """Move v to the optimum over the active constraints; drop, one by one, those that would turn negative."""
    while active:
        goal = dict(zip(active, _solve(C, active, [-d[i] for i in active]), strict=True))
        blocking = [(v[i] / (v[i] - goal[i]) if v[i] > 0 else 0.0, i) for i in active if goal[i] <= 0]
        share, leaving = min(blocking, default=(1.0, None))
        for i in active:
            v[i] += share * (goal[i] - v[i])
        if leaving is None:
            return
        v[leaving] = 0.0
        active.remove(leaving)


def _distance_squared(C: Matrix, active: list[int], j: int) -> float:
    """How far ĝⱼ is from the span of the active constraints, squared."""
    if not active:
        return 1.0
    column = [C[i][j] for i in active]
    return 1.0 - sum(x * y for x, y in zip(column, _solve(C, active, column), strict=True))


def _solve(C: Matrix, active: list[int], right: list[float]) -> list[float]:
    matrix = torch.tensor([[C[i][j] for j in active] for i in active], dtype=torch.float64)
    solution: list[float] = torch.linalg.solve(matrix, torch.tensor(right, dtype=torch.float64)).tolist()
    return solution
