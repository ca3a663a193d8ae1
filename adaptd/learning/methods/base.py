"""The seam between the loop and the methods: a base class whose hooks do nothing. A method overrides those it needs.

An episode goes: `choose_pools` (what is in a batch) → `build` (networks and steppers) → at a fresh start `check` (whether to
learn from the domain at all) and `begin`, or `restore` after a checkpoint → for every step `update` and, once the step is taken,
`follow`; `begin_epoch` before every epoch but the first → `remember`.

A method asks for the groups it trains (`train`) and adds networks of its own (`add_network`); both are checkpointed and restored
for it, as are the tensors in the attributes that `kept` names. In `update` it gives its steppers gradients. Those that have one
when it returns are stepped by the loop; a method that moves in several steps calls `Stepper.step` for all but the last.
Where a loss or a gradient is not finite the loop undoes the whole update: parameters, update rules, buffers and attributes are
what they were. So `update` may bind attributes anew; a tensor of the method's own is changed in place in `follow` alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar, cast

from torch import Tensor, nn

from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import Batch, EpisodeData, Pool
from adaptd.learning.grcl import MemorySelection
from adaptd.learning.methods.foundation import adaptation_pools, most_confident
from adaptd.learning.methods.registry import RuleName, get_entry
from adaptd.learning.parameters import Parameters
from adaptd.learning.plan import Plan
from adaptd.learning.stepper import Stepper
from adaptd.learning.survey import Survey, Surveys
from adaptd.learning.trust import Trust
from adaptd.sections import Section

Options = TypeVar("Options", bound=Section)


@dataclass(frozen=True, slots=True)
class Update:
    """What a step did. Multipliers are those of the constraints, by name; above 0 means active."""

    losses: Mapping[str, float]
    norms: Mapping[str, float] = field(default_factory=dict)
    multipliers: Mapping[str, float] = field(default_factory=dict)


class Method(Generic[Options]):
    """How an episode adapts a classifier: `plan`, `options`, `model` and `data` are there from the start."""

    trains_statistics: ClassVar[bool] = False
    """Whether BatchNorm learns its statistics and dropout is on; else the network is a fixed function of each image."""

    needs_keys: ClassVar[bool] = False
    """Whether `begin` is to be given the projections of every image."""

    kept: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold tensors of the method's own."""

    def __init__(self, plan: Plan, model: Classifier, data: EpisodeData) -> None:
        self.plan, self.model, self.data = plan, model, data
        self.options = cast("Options", plan.options)
        self.parameters = Parameters(model, plan)
        self.pools = self.choose_pools()
        self.build()
        self.parameters.lay_out()

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return self.plan.method

    @property
    def converged(self) -> bool:
        """Whether going on as before would bring nothing: the episode then ends within an epoch, at a falling rate."""
        return False

    @property
    def look_images(self) -> int:
        """How many images `begin_epoch` looks at: for people, who are told how far that is."""
        return 0

    def choose_pools(self) -> tuple[Pool, ...]:
        """The parts of a batch; passes over the last one are the epochs. None at all: the model is left alone."""
        return adaptation_pools(self.data, self.plan)

    def build(self) -> None:
        """Add networks and ask for steppers, the same each time."""

    def check(self, trust: Trust) -> None:
        """Whether to learn from the target at all, by how the model sees it before the first step.

        Raises:
            DomainNotRecognised: it had better not.
        """

    def begin(self, surveys: Surveys) -> None:
        """A fresh start: what the model sees in everything, before the first step."""

    def begin_epoch(self, epoch: int) -> Survey | None:  # noqa: ARG002
        """Before the first step of an epoch, from 1. Who surveys the whole target for it gives that back."""
        return None

    def update(self, batch: Batch) -> Update:
        """Give gradients to steppers.

        Raises:
            NotFinite: a value is not finite.
        """
        raise AssertionError(f"{self.name} takes no steps, yet was given step {batch.step}")

    def follow(self, batch: Batch) -> None:
        """The step was taken: let what follows the model (a bank, a moving average) follow."""

    def remember(self, surveys: Surveys) -> MemorySelection | None:
        """The target's images to keep, after the last step; None if there is no target."""
        return most_confident(surveys, self.data, self.plan.memory)

    def tensors(self) -> dict[str, Tensor]:
        """What the method owns beside networks and steppers, for a checkpoint."""
        return {name: getattr(self, name) for name in self.kept}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        for name in self.kept:
            setattr(self, name, tensors[name].clone())

    def add_network(self, name: str, make: Callable[[], nn.Module]) -> nn.Module:
        """A network of its own, a group of that name; only training needs it, it is never exported."""
        return self.parameters.add(name, make)

    def train(self, *groups: str, rows: int = 1, rule: RuleName | None = None, rate: float = 1.0) -> Stepper:
        """A stepper for some groups, as one vector; see `Parameters.train`."""
        return self.parameters.train(*groups, rows=rows, rule=rule, rate=rate)


def create_method(plan: Plan, model: Classifier, data: EpisodeData) -> Method[Any]:
    """The plan's method, ready for one episode."""
    module, _, name = get_entry(plan.method).implementation.partition(":")
    method: Method[Any] = getattr(import_module(module), name)(plan, model, data)
    return method
