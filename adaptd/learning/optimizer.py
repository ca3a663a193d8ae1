"""The update rules, run on flat parameter vectors. What gradient they are given is the method's business.

None is an object of torch.optim: the first of those loads a compiler, two seconds in every worker.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from adaptd.learning.methods.registry import RuleName

DECAY = 0.99
TINY = 1e-8


class Rule(Protocol):
    """Moves θ [N] against a gradient [N]. Its state changes in `apply` and `restore` alone."""

    @property
    def metric(self) -> Tensor | None:
        """P, where the step is along P∘gradient; None where it is along the gradient, or where that is not known beforehand."""

    def observe(self, gradient: Tensor) -> None:
        """Let the metric be that of this gradient, until the step is taken or the next one is observed."""

    def apply(self, theta: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Take the step."""

    def tensors(self) -> dict[str, Tensor]:
        """The state, for a checkpoint."""

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from this state; nothing is observed."""


def make_rule(rule: RuleName, momentum: float = 0.0, weight_decay: float = 0.0) -> Rule:
    """The update rule of that name."""
    if rule == "rmsprop":
        return RmsProp()
    if rule == "sgd":
        return Sgd(momentum, weight_decay)
    return AdamW(weight_decay)


class Sgd:
    """θ ← θ − rate · v, with v ← momentum · v + gradient + weight_decay · θ."""

    metric = None

    def __init__(self, momentum: float, weight_decay: float) -> None:
        self._momentum, self._weight_decay = momentum, weight_decay
        self._velocity: Tensor | None = None

    def observe(self, gradient: Tensor) -> None:
        """The step is along the gradient, but for momentum."""

    def apply(self, theta: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move θ."""
        step = gradient
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
    """torch's, fused. The state is two tensors as long as θ, and how many steps were taken."""

    metric = None

    def __init__(self, weight_decay: float) -> None:
        self._weight_decay = weight_decay
        self._state: dict[str, Tensor] = {}

    def observe(self, gradient: Tensor) -> None:
        """The metric is not known beforehand."""

    def apply(self, theta: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move θ."""
        if not self._state:
            self._state = {"exp_avg": torch.zeros_like(theta), "exp_avg_sq": torch.zeros_like(theta)}
            self._state["step"] = torch.zeros((), device=theta.device)
        adamw(
            [theta],
            [gradient],
            [self._state["exp_avg"]],
            [self._state["exp_avg_sq"]],
            [],
            [self._state["step"]],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=learning_rate,
            weight_decay=self._weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Its state."""
        return dict(self._state)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """As it was."""
        self._state = {name: value.clone() for name, value in tensors.items()}


class RmsProp:
    """θ ← θ − rate · P∘w with P = 1/√v, v a running mean of squared gradients.

    P can be had before the step, from the gradient that is observed: a method that projects in this metric knows that the step it
    takes, and not only the gradient it started from, hurts no constraint.
    """

    def __init__(self) -> None:
        self._square: Tensor | None = None
        self._count = 0
        self._observed: tuple[Tensor, Tensor] | None = None

    @property
    def metric(self) -> Tensor | None:
        """P, with the observed gradient counted in."""
        return None if self._observed is None else self._observed[1]

    def observe(self, gradient: Tensor) -> None:
        """Count a gradient in; it becomes part of the running mean with the step."""
        before = torch.zeros_like(gradient) if self._square is None else self._square
        square = (before * DECAY).addcmul_(gradient, gradient, value=1 - DECAY)
        # A running mean that began at zero is short of the truth while it is young.
        metric = (square / (1 - DECAY ** (self._count + 1))).sqrt_().add_(TINY).reciprocal_()
        self._observed = square, metric

    def apply(self, theta: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move θ against P∘gradient; where none was observed, this one is."""
        if self._observed is None:
            self.observe(gradient)
        assert self._observed is not None
        self._square, metric = self._observed
        self._count += 1
        theta.addcmul_(gradient, metric, value=-learning_rate)
        self._observed = None

    def tensors(self) -> dict[str, Tensor]:
        """The running mean and its age, once there is one."""
        return {} if self._square is None else {"square": self._square, "count": torch.tensor(self._count)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """As they were."""
        self._square = tensors["square"].clone() if tensors else None
        self._count, self._observed = int(tensors["count"]) if tensors else 0, None
