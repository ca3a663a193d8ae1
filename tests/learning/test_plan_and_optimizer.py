"""Schedules, and update rules on the flat parameter vector."""

import copy

import pytest
import torch
from torch import nn

from adaptd.errors import ConfigError
from adaptd.learning.grcl import GradientRows, flatten
from adaptd.learning.methods.settings import MethodSettings
from adaptd.learning.optimizer import make_rule
from adaptd.learning.plan import Plan
from adaptd.learning.settings import ModelSettings, TrainingSettings
from adaptd.project.settings import Settings


def test_adaptation_decays_as_a_cosine_from_the_peak(settings):
    """The first step has the peak rate, the middle half of it, the last nearly nothing."""
    plan = Plan.for_adaptation(settings(learning_rate=0.02), "grcl")
    assert plan.rate(0, 100) == 0.02
    assert plan.rate(50, 100) == pytest.approx(0.01)
    assert 0 < plan.rate(99, 100) < 0.0001


def test_the_source_warms_up_first(settings):
    """Episode 0 rises over the first 5 % of its steps, peaks, and decays."""
    plan = Plan.for_source(settings())
    rates = [plan.rate(step, 100) for step in range(100)]
    assert rates[:6] == sorted(rates[:6])
    assert max(rates) == rates[5] == plan.learning_rate
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert min(rates) > 0


def test_plans_follow_the_settings():
    """Each kind of episode takes its numbers from its own section; the source may go without augmentation."""
    default = Settings()
    assert Plan.for_adaptation(default, "grcl").batch_size == 256
    assert Plan.for_source(default).optimizer == "adamw"
    plain = default.model_copy(update={"source": default.source.model_copy(update={"augment": False})})
    assert Plan.for_source(plain).augmentation is None
    assert Plan.for_adaptation(default, "grcl").threads >= 1


class ReferenceRms(torch.optim.RMSprop):
    """torch's RMSprop, with a running mean that is corrected for its youth, as Adam's is."""

    def __init__(self, parameters) -> None:
        super().__init__(parameters, lr=0.1, alpha=0.99, eps=0)
        self.steps = 0

    def step(self) -> None:
        """A larger mean is a smaller step."""
        self.steps += 1
        self.param_groups[0]["lr"] = 0.1 * (1 - 0.99**self.steps) ** 0.5
        super().step()


@pytest.mark.parametrize(
    ("rule", "momentum", "reference"),
    [
        ("sgd", 0.0, lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01)),
        ("sgd", 0.9, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01)),
        ("adamw", 0.0, lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01)),
        ("rmsprop", 0.0, ReferenceRms),
    ],
)
def test_flat_updates_equal_layerwise_updates(rule, momentum, reference):
    """On the flat vector each rule does what it does layer by layer; a restored state goes on the same."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    twin = copy.deepcopy(network)
    theta, rows = flatten(list(network.parameters())), GradientRows(network.parameters())
    optimizer, other = make_rule(rule, momentum, 0.01), reference(twin.parameters())
    for step in range(4):
        x = torch.randn(8, 4)
        rows.clear()
        rows.backward(network(x).square().mean())
        optimizer.apply(theta, rows.rows[0], 0.1)
        other.zero_grad()
        twin(x).square().mean().backward()
        other.step()
        if step == 1:
            kept = {name: value.clone() for name, value in optimizer.tensors().items()}
            optimizer = make_rule(rule, momentum, 0.01)
            optimizer.restore(kept)
    for ours, theirs in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_metric_is_that_of_the_step_taken():
    """What RMSprop tells of an observed gradient is what it multiplies the step with."""
    optimizer, theta = make_rule("rmsprop"), torch.randn(15)
    for _ in range(3):
        optimizer.observe(torch.randn(15))
        metric = optimizer.metric.clone()
        gradient, before = torch.randn(15), theta.clone()  # projected meanwhile
        optimizer.apply(theta, gradient, 0.1)
        torch.testing.assert_close(before - theta, 0.1 * metric * gradient)


def test_looking_changes_nothing():
    """However often a gradient is observed and the metric asked for, the state is that after the steps taken."""
    optimizer, theta = make_rule("rmsprop"), torch.randn(15)
    optimizer.apply(theta, torch.randn(15), 0.1)
    before = {name: value.clone() for name, value in optimizer.tensors().items()}
    gradient = torch.randn(15)
    metrics = []
    for _ in range(3):
        optimizer.observe(gradient)
        metrics += [optimizer.metric.clone(), optimizer.metric.clone()]
    assert all(torch.equal(metric, metrics[0]) for metric in metrics)
    assert all(torch.equal(value, before[name]) for name, value in optimizer.tensors().items())


def test_rule_and_rate_fit_method_and_backbone():
    """They go with the method that runs, whatever [method] name says; a LeNet bears ten times the rate; what is set is taken."""
    small = ModelSettings(backbone="lenet5", classes=("a", "b"))
    for method, model, expected in (
        ("grcl", ModelSettings(), ("sgd", 0.001)),
        ("guarded", ModelSettings(), ("rmsprop", 0.0001)),
        ("grcl", small, ("sgd", 0.01)),
        ("self-training", small, ("rmsprop", 0.001)),
        ("dann", ModelSettings(), ("adamw", 0.0001)),
        ("cua", small, ("adamw", 0.001)),
        ("gra", small, ("sgd", 0.01)),
        ("mcd", small, ("adamw", 0.0002)),
        ("dada", ModelSettings(), ("adamw", 0.00002)),
    ):
        for name in ("grcl", "guarded"):
            plan = Plan.for_adaptation(Settings(method=MethodSettings(name=name), model=model), method)
            assert (plan.optimizer, plan.learning_rate) == (expected[0], pytest.approx(expected[1]))
    own = Plan.for_adaptation(Settings(training=TrainingSettings(optimizer="adamw", learning_rate=0.5)), "grcl")
    assert (own.optimizer, own.learning_rate) == ("adamw", 0.5)


@pytest.mark.parametrize(
    ("method", "training", "said"),
    [
        (
            "guarded",
            {"momentum": 0.9},
            "momentum does nothing with rmsprop, the update rule of guarded: set it to 0, or optimizer",
        ),
        ("grcl", {"momentum": 0.9, "optimizer": "adamw"}, "momentum does nothing with adamw: set it to 0"),
        ("guarded", {"weight_decay": 0.1}, "weight_decay does nothing with rmsprop, the update rule of guarded"),
        ("grcl", {"momentum": 0.9, "weight_decay": 0.1}, None),
        ("guarded", {"optimizer": "adamw", "weight_decay": 0.1}, None),
    ],
)
def test_what_would_be_ignored_is_refused(method, training, said):
    """Momentum and weight decay are an error where the update rule has no use for them."""
    settings = Settings(training=TrainingSettings(**training))
    if said is None:
        Plan.for_adaptation(settings, method)
        return
    with pytest.raises(ConfigError, match=said):
        Plan.for_adaptation(settings, method)
