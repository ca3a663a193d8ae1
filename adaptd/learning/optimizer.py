"""The update rules, run on the one flat parameter vector. What gradient they are given is the method's business."""

from typing import Literal, Protocol

import torch
from torch import Tensor

from adaptd.learning.grcl import FlatParameters

DECAY = 0.99
TINY = 1e-8


class Rule(Protocol):
    """Moves θ against row 0."""

    def metric(self) -> Tensor | None:
        """P, where the next step is along P∘row 0; None where it is along row 0, or where that cannot be known beforehand."""

    def apply(self, learning_rate: float) -> None:
        """Take the step."""

    def tensors(self) -> dict[str, Tensor]:
        """The state, for a checkpoint."""

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint's state."""


def make_rule(
    flat: FlatParameters, rule: Literal["sgd", "adamw", "rmsprop"], momentum: float = 0.0, weight_decay: float = 0.0
) -> Rule:
    """The update rule of that name."""
    if rule == "rmsprop":
        return RmsProp(flat)
    if rule == "sgd":
        return TorchRule(flat, torch.optim.SGD([flat.theta], lr=0.0, momentum=momentum, weight_decay=weight_decay))
    return TorchRule(flat, torch.optim.AdamW([flat.theta], lr=0.0, weight_decay=weight_decay, fused=True))


class TorchRule:
    """One of torch's optimizers. The state is a few tensors as long as θ."""

    def __init__(self, flat: FlatParameters, optimizer: torch.optim.Optimizer) -> None:
        self._flat, self._optimizer = flat, optimizer

    def metric(self) -> Tensor | None:
        """Along the gradient, as far as can be told."""
        return None

    def apply(self, learning_rate: float) -> None:
        """Move θ against row 0."""
        self._optimizer.param_groups[0]["lr"] = learning_rate
        self._flat.theta.grad = self._flat.rows[0]
        self._optimizer.step()

    def tensors(self) -> dict[str, Tensor]:
        """Its state."""
        state = self._optimizer.state.get(self._flat.theta, {})
        return {name: value for name, value in state.items() if isinstance(value, Tensor)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """As it was."""
        if tensors:
            self._optimizer.state[self._flat.theta] = {name: value.clone() for name, value in tensors.items()}


class RmsProp:
    """θ ← θ − rate · P∘w with P = 1/√v, v a running mean of squared gradients.

    P can be had before the step, from the gradient in row 0 at that time: a method that projects in this metric knows that the
    step it takes, and not only the gradient it started from, hurts no constraint.
    """

    def __init__(self, flat: FlatParameters) -> None:
        self._flat = flat
        self._square, self._count = torch.zeros_like(flat.theta.data), 0
        self._metric: Tensor | None = None

    def metric(self) -> Tensor:
        """P, with row 0 counted in."""
        self._square.mul_(DECAY).addcmul_(self._flat.rows[0], self._flat.rows[0], value=1 - DECAY)
        self._count += 1
        # A running mean that began at zero is short of the truth while it is young.
        self._metric = (self._square / (1 - DECAY**self._count)).sqrt_().add_(TINY).reciprocal_()
        return self._metric

    def apply(self, learning_rate: float) -> None:
        """Move θ against P∘row 0."""
        metric = self.metric() if self._metric is None else self._metric
        self._flat.theta.data.addcmul_(self._flat.rows[0], metric, value=-learning_rate)
        self._metric = None

    def tensors(self) -> dict[str, Tensor]:
        """The running mean and its age."""
        return {"square": self._square, "count": torch.tensor(self._count)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """As they were."""
        self._square, self._count = tensors["square"].clone(), int(tensors["count"])
