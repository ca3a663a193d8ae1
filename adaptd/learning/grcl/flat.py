"""θ as one vector, and gradient rows beside it. What the rows mean, and how they are combined, is decided elsewhere.

Every parameter is a view of θ, and `backward` accumulates straight into the chosen row. So a Gram matrix, a projection, an
optimizer step and a checkpoint each touch one tensor, not one per layer.
"""

from collections.abc import Iterable, Sequence
from math import ceil

import torch
from torch import Tensor, nn

CHUNK = 1 << 16
"""Columns turned into float64 at a time: a handful of rows of this length stay in the second-level cache."""


def flatten(parameters: Sequence[nn.Parameter]) -> Tensor:
    """θ: one vector that all of them are views of from here on."""
    theta = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    for parameter, view in zip(parameters, _views(theta, parameters), strict=True):
        parameter.data = view
    return theta


class GradientRows:
    """`rows` [k, N]: gradients with respect to some parameters. A parameter that no loss reaches has zeros there."""

    def __init__(self, parameters: Iterable[nn.Parameter], rows: int = 1) -> None:
        self._parameters = list(parameters)
        some, size = self._parameters[0], sum(p.numel() for p in self._parameters)
        self.rows = torch.zeros(rows, size, dtype=some.dtype, device=some.device)
        # Where the doubles are: some devices have none.
        self._doubles = torch.device("cpu") if some.device.type == "mps" else some.device
        self._wide = torch.empty(rows, min(CHUNK, size), dtype=torch.float64, device=self._doubles)

    def backward(self, loss: Tensor, row: int = 0, *, retain_graph: bool = False) -> None:
        """Add the loss's gradient to a row. Other parameters get none, whatever the loss reaches."""
        for parameter, view in zip(self._parameters, _views(self.rows[row], self._parameters), strict=True):
            parameter.grad = view
        torch.autograd.backward(loss, retain_graph=retain_graph, inputs=self._parameters)

    def clear(self) -> None:
        """Every row zero."""
        self.rows.zero_()

    def release(self) -> None:
        """Let go of the gradient rows; the parameters stay."""
        for parameter in self._parameters:
            parameter.grad = None

    def gram(self, metric: Tensor | None = None) -> Tensor:
        """All inner products of the rows, [k, k] in float64 on the processor; with a metric P [N], gᵢᵀ diag(P) gⱼ.

        In float32, 1 - c² of two rows with a million entries came out negative.
        """
        gram = torch.zeros(len(self.rows), len(self.rows), dtype=torch.float64, device=self._doubles)
        weights = [None] * ceil(self.rows.shape[1] / CHUNK) if metric is None else torch.split(metric, CHUNK)
        for narrow, weight in zip(torch.split(self.rows, CHUNK, dim=1), weights, strict=True):
            wide = self._wide[:, : narrow.shape[1]].copy_(narrow)
            gram.addmm_(wide, wide.T if weight is None else (wide * weight.to(self._doubles)).T)
        return gram.cpu()

    def combine(self, coefficients: Sequence[float]) -> None:
        """Replace row 0 by Σ coefficients[i] · rows[i], in float64 since near-parallel rows cancel almost entirely."""
        if not any(coefficients[1:]):
            self.rows[0].mul_(coefficients[0])
            return
        factors = torch.tensor(coefficients, dtype=torch.float64, device=self._doubles)
        for narrow in torch.split(self.rows, CHUNK, dim=1):
            wide = self._wide[:, : narrow.shape[1]].copy_(narrow)
            narrow[0].copy_(factors @ wide)


def _views(vector: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    pieces = torch.split(vector, [p.numel() for p in parameters])
    return [piece.view(p.shape) for piece, p in zip(pieces, parameters, strict=True)]
