"""θ as one vector, and gradient rows beside it. What the rows mean, and how they are combined, is decided elsewhere.

Every parameter of the network is a view of θ, and `loss.backward()` accumulates straight into the chosen row. So a
Gram matrix, a projection, an optimizer step and a checkpoint each touch one tensor, not one per layer.
"""

from collections.abc import Sequence
from math import ceil

import torch
from torch import Tensor, nn

CHUNK = 1 << 16
"""Columns turned into float64 at a time: a handful of rows of this length stay in the second-level cache."""


class FlatParameters:
    """The trainable parameters of a network as views of `theta` [N], with `rows` [k, N] for gradients.

    A parameter that a loss does not reach keeps zeros in its row.
    """

    def __init__(self, network: nn.Module, rows: int = 1) -> None:
        named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
        self.shapes = {name: tuple(p.shape) for name, p in named}
        self._parameters = [p for _, p in named]
        self.theta = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in self._parameters]), requires_grad=False)
        self.rows = torch.zeros(rows, self.theta.numel())
        self._wide = torch.empty(rows, min(CHUNK, self.theta.numel()), dtype=torch.float64)
        for parameter, view in zip(self._parameters, self._views(self.theta.data), strict=True):
            parameter.data = view

    def _views(self, vector: Tensor) -> list[Tensor]:
        pieces = torch.split(vector, [p.numel() for p in self._parameters])
        return [piece.view(p.shape) for piece, p in zip(pieces, self._parameters, strict=True)]

    def accumulate_into(self, row: int) -> None:
        """Let the next `backward()` add its gradient to this row."""
        for parameter, view in zip(self._parameters, self._views(self.rows[row]), strict=True):
            parameter.grad = view

    def clear(self) -> None:
        """Start a new step: every row zero."""
        self.rows.zero_()

    def release(self) -> None:
        """Let go of the gradient rows; the parameters stay."""
        for parameter in self._parameters:
            parameter.grad = None

    def gram(self, metric: Tensor | None = None) -> Tensor:
        """All inner products of the rows, [k, k] in float64; with a metric P [N], gᵢᵀ diag(P) gⱼ.

        In float32, 1 - c² of two rows with a million entries came out negative.
        """
        gram = torch.zeros(len(self.rows), len(self.rows), dtype=torch.float64)
        weights = [None] * ceil(self.rows.shape[1] / CHUNK) if metric is None else torch.split(metric, CHUNK)
        for narrow, weight in zip(torch.split(self.rows, CHUNK, dim=1), weights, strict=True):
            wide = self._wide[:, : narrow.shape[1]].copy_(narrow)
            gram.addmm_(wide, wide.T if weight is None else (wide * weight).T)
        return gram

    def combine(self, coefficients: Sequence[float]) -> None:
        """Replace row 0 by Σ coefficients[i] · rows[i], in float64 since near-parallel rows cancel almost entirely."""
        if not any(coefficients[1:]):
            self.rows[0].mul_(coefficients[0])
            return
        factors = torch.tensor(coefficients, dtype=torch.float64)
        for narrow in torch.split(self.rows, CHUNK, dim=1):
            wide = self._wide[:, : narrow.shape[1]].copy_(narrow)
            narrow[0] = factors @ wide
