"""The update rules, run on the one flat parameter vector. What gradient they are given is the method's business."""

from typing import Literal

import torch
from torch import Tensor

from adaptd.learning.grcl import FlatParameters

PREFIX = "optimizer."


class FlatOptimizer:
    """SGD or AdamW on θ with gradient row 0. The state is a few tensors as long as θ."""

    def __init__(
        self, flat: FlatParameters, rule: Literal["sgd", "adamw"], momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        self._flat = flat
        self._rule: torch.optim.Optimizer = (
            torch.optim.SGD([flat.theta], lr=0.0, momentum=momentum, weight_decay=weight_decay)
            if rule == "sgd"
            else torch.optim.AdamW([flat.theta], lr=0.0, weight_decay=weight_decay, fused=True)
        )

    def apply(self, learning_rate: float) -> None:
        """Move θ against row 0."""
        self._rule.param_groups[0]["lr"] = learning_rate
        self._flat.theta.grad = self._flat.rows[0]
        self._rule.step()

    def tensors(self) -> dict[str, Tensor]:
        """The state, for a checkpoint."""
        state = self._rule.state.get(self._flat.theta, {})
        return {name: value for name, value in state.items() if isinstance(value, Tensor)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint's state."""
        if tensors:
            self._rule.state[self._flat.theta] = {name: value.clone() for name, value in tensors.items()}
