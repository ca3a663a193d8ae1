"""A stepper: gradient rows over some parameters, and the update rule that moves these along row 0."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from adaptd.learning.grcl import GradientRows
from adaptd.learning.optimizer import Rule
from adaptd.learning.ranks import reduce_sums


class Owner(Protocol):
    """Who has θ."""

    rate: float

    def save(self) -> None:
        """Keep what steps within an update change."""

    def move(self, groups: Sequence[str], act: Callable[[Tensor], None]) -> None:
        """Let something change the groups' part of θ."""


class NotFinite(Exception):  # no error: the loop skips the step
    """A loss or a gradient is NaN or infinite: the step must not be taken."""


class Stepper(GradientRows):
    """Some groups as one vector: its gradient rows, and an update rule that steps along row 0."""

    def __init__(
        self, owner: Owner, groups: Sequence[str], parameters: Iterable[nn.Parameter], rows: int, rule: Rule, rate: float
    ) -> None:
        super().__init__(parameters, rows)
        self.groups, self.rule, self.pending = groups, rule, False
        self._owner, self._rate, self._reduced = owner, rate, False

    @property
    def metric(self) -> Tensor | None:
        """P, where the step is along P∘row 0; None where it is along row 0, or where that is not known beforehand."""
        return self.rule.metric

    def observe(self) -> None:
        """Let the metric be that of the gradient in row 0."""
        self.rule.observe(self.rows[0])

    def backward(self, loss: Tensor, row: int = 0, *, retain_graph: bool = False) -> None:
        """Add the loss's gradient to a row; a step is due."""
        super().backward(loss, row, retain_graph=retain_graph)
        self.pending = True

    def clear(self) -> None:
        """Every row zero, and no step due."""
        super().clear()
        self.pending = self._reduced = False

    def reduce(self, *sums: Tensor) -> None:
        """Add up the rows, and sums that go with them, over all ranks: before dividing and projecting, else `step` does it."""
        reduce_sums(self.rows, *sums)
        self._reduced = True

    def check(self) -> None:
        """See whether the step can be taken.

        Raises:
            NotFinite: row 0 holds NaN or infinity, or what squares to it in an update rule's running mean.
        """
        if not self._reduced:
            self.reduce()
        if not bool(torch.stack(torch.aminmax(self.rows[0])).square().isfinite().all()):
            raise NotFinite

    def step(self) -> None:
        """Move the groups along row 0 within an update; the step after the last `backward` is the loop's.

        Raises:
            NotFinite: row 0 holds NaN or infinity.
        """
        self.check()
        self._owner.save()
        self.take()
        self.clear()

    def take(self) -> None:
        """Move the groups along row 0, which was checked."""
        self._owner.move(self.groups, lambda theta: self.rule.apply(theta, self.rows[0], self._owner.rate * self._rate))
        self.pending = False
