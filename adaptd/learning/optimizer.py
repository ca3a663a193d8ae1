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
        return Sgd(flat, momentum, weight_decay)
    return AdamW(flat, weight_decay)


class Sgd:
    """θ ← θ − rate · v, with v ← momentum · v + row 0 + weight_decay · θ.

    Written out because torch.optim loads a compiler when the first of its optimizers is made, two seconds in every worker.
    """

    def __init__(self, flat: FlatParameters, momentum: float, weight_decay: float) -> None:
        self._flat, self._momentum, self._weight_decay = flat, momentum, weight_decay
        self._velocity: Tensor | None = None

    def metric(self) -> Tensor | None:
        """Along the gradient, but for momentum."""
        return None

    def apply(self, learning_rate: float) -> None:
        """Move θ."""
        theta, step = self._flat.theta.data, self._flat.rows[0]
        if self._weight_decay:
            step = step.add(theta, alpha=self._weight_decay)
        if self._momentum:
            self._velocity = step.clone() if self._velocity is None else self._velocity.mul_(self._momentum).add_(step)
            step = self._velocity
        theta.add_(step, alpha=-learning_rate)

    def tensors(self) -> dict[str, Tensor]:
        """The velocity, once there is one."""
        return {} if self._velocity is None else {"velocity": self._velocity}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """As it was."""
        self._velocity = tensors["velocity"].clone() if tensors else None


class AdamW:
    """torch's. The state is two tensors as long as θ."""

    def __init__(self, flat: FlatParameters, weight_decay: float) -> None:
        self._flat = flat
        self._optimizer = torch.optim.AdamW([flat.theta], lr=0.0, weight_decay=weight_decay, fused=True)

    def metric(self) -> Tensor | None:
        """Not to be had beforehand."""
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
