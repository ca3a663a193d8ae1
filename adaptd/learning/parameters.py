"""What is trained: named groups of parameters in one vector θ, and steppers that move some of them by rules of their own.

The groups are the classifier's encoder, projector and classifier, and the networks that a method adds. Only groups that a
stepper was asked for are in θ; everything else stays as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from adaptd.errors import ConfigError
from adaptd.learning.backbones import Classifier
from adaptd.learning.grcl import flatten
from adaptd.learning.methods.registry import RuleName
from adaptd.learning.optimizer import make_rule
from adaptd.learning.plan import Plan
from adaptd.learning.seeding import seed_for
from adaptd.learning.stepper import NotFinite, Stepper

GROUPS = ("encoder", "projector", "classifier")
"""The parts of the classifier that are groups, in their order in θ."""


class Parameters:
    """The networks in training, θ, and all the steppers."""

    def __init__(self, model: Classifier, plan: Plan) -> None:
        self.model, self.rate, self._plan = model, plan.learning_rate, plan
        self.theta = torch.empty(0, device=plan.device)
        self.networks: dict[str, nn.Module] = {name: model.get_submodule(name) for name in GROUPS}
        self.steppers: list[Stepper] = []
        self._places: dict[str, slice] = {}
        self._saved: list[dict[str, Tensor]] = []

    def add(self, name: str, make: Callable[[], nn.Module]) -> nn.Module:
        """A network of the method's own: a group of that name, the same for every run with a seed."""
        assert name not in self.networks, name
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(self._plan.seed, "network", name))
            self.networks[name] = make().to(self._plan.device)
        return self.networks[name]

    def train(self, *groups: str, rows: int = 1, rule: RuleName | None = None, rate: float = 1.0) -> Stepper:
        """A stepper for some groups.

        Args:
            groups: their names, in the order of their parts of a row.
            rows: how many gradients.
            rule: its update rule; None: the plan's.
            rate: times the episode's learning rate.
        """
        plan, parameters = self._plan, self.list_parameters(groups)
        if not parameters:
            raise ConfigError(f'{plan.method} trains the encoder: set training.depth to "last-stage" or "all"')
        chosen = make_rule(plan.optimizer, plan.momentum, plan.weight_decay) if rule is None else make_rule(rule)
        self.steppers.append(Stepper(self, groups, parameters, rows, chosen, rate))
        return self.steppers[-1]

    def list_parameters(self, groups: Iterable[str]) -> list[nn.Parameter]:
        """The parameters of some groups, as far as they can be trained."""
        return [parameter for group in groups for parameter in self.networks[group].parameters() if parameter.requires_grad]

    def lay_out(self) -> None:
        """Make θ of every group that a stepper moves."""
        asked = {group for stepper in self.steppers for group in stepper.groups}
        groups = [group for group in self.networks if group in asked]
        ends = list(accumulate((sum(p.numel() for p in self.list_parameters([group])) for group in groups), initial=0))
        self._places = {group: slice(*ends) for group, ends in zip(groups, pairwise(ends), strict=True)}
        if groups:
            self.theta = flatten(self.list_parameters(groups))

    def move(self, groups: Sequence[str], act: Callable[[Tensor], None]) -> None:
        """Let something change the groups' part of θ: in place where they lie side by side, else by way of a copy."""
        places = [self._places[group] for group in groups]
        if all(one.stop == other.start for one, other in pairwise(places)):
            act(self.theta[places[0].start : places[-1].stop])
            return
        together = torch.cat([self.theta[place] for place in places])
        act(together)
        for place, moved in zip(places, torch.split(together, [place.stop - place.start for place in places]), strict=True):
            self.theta[place] = moved

    @contextmanager
    def unchanged_unless_finite(self, *, statistics: bool) -> Iterator[None]:
        """Around an update and its steps: on NotFinite parameters, update rules and buffers are as they were before.

        Args:
            statistics: whether the classifier's buffers can change.
        """
        changing = [self.model, *self._own()] if statistics else self._own()
        buffers = [buffer for network in changing for buffer in network.buffers()]
        before = [buffer.clone() for buffer in buffers]
        self._saved.clear()
        for stepper in self.steppers:
            stepper.clear()
        try:
            yield
        except NotFinite:
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)
            self._roll_back()
            raise

    def save(self) -> None:
        """Keep what steps within an update change; nothing to do for the second of them."""
        if not self._saved:
            self._saved = [_copy({"theta": self.theta}), *(_copy(stepper.rule.tensors()) for stepper in self.steppers)]

    def _roll_back(self) -> None:
        if self._saved:
            self.theta.copy_(self._saved[0]["theta"])
        # Where nothing was saved nothing was applied, but something may be observed.
        rules = self._saved[1:] or [stepper.rule.tensors() for stepper in self.steppers]
        for stepper, tensors in zip(self.steppers, rules, strict=True):
            stepper.rule.restore(tensors)

    def take_steps(self) -> None:
        """Take every step that is due, or none.

        Raises:
            NotFinite: one of the gradients is.
        """
        due = [stepper for stepper in self.steppers if stepper.pending]
        for stepper in due:
            stepper.check()
        for stepper in due:
            stepper.take()

    def release(self) -> None:
        """Let go of the gradients."""
        for stepper in self.steppers:
            stepper.release()

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a checkpoint needs: θ, the update rules' state, and what is in the networks beside θ."""
        found = {"theta": self.theta, **{f"fixed.{name}": value for name, value in self._fixed().items()}}
        for number, stepper in enumerate(self.steppers):
            found |= {f"rule.{number}.{name}": value for name, value in stepper.rule.tensors().items()}
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """As it was."""
        self.theta.copy_(tensors["theta"])
        for name, value in self._fixed().items():
            value.copy_(tensors[f"fixed.{name}"])
        for number, stepper in enumerate(self.steppers):
            stepper.rule.restore(under(f"rule.{number}.", tensors))

    def describe(self) -> list[object]:
        """What a checkpoint must agree with: the networks' shapes, and who moves what."""
        shapes = [
            (name, key, tuple(value.shape)) for name, net in self.networks.items() for key, value in net.state_dict().items()
        ]
        return [*shapes, *((stepper.groups, type(stepper.rule).__name__) for stepper in self.steppers)]

    def _own(self) -> list[nn.Module]:
        return [network for name, network in self.networks.items() if name not in GROUPS]

    def _fixed(self) -> dict[str, Tensor]:
        """What the networks hold that is not a part of θ: BatchNorm statistics and the like, and groups that nobody trains."""
        flat = {id(p) for p in self.list_parameters(self._places)}
        return {
            f"{name}.{key}": value.detach()
            for name, network in self.networks.items()
            for key, value in network.state_dict(keep_vars=True).items()
            if id(value) not in flat
        }


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in tensors.items()}
