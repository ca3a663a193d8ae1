"""The seam: a toy method with a network and update rules of its own, that steps encoder and classifiers separately."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from adaptd.errors import NonFiniteSteps
from adaptd.learning import stepper as stepper_module
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import Batch, EpisodeData
from adaptd.learning.checkpoint import read_checkpoint, write_checkpoint
from adaptd.learning.loop import Training
from adaptd.learning.methods.base import Method, Update
from adaptd.learning.methods.options import NoOptions
from adaptd.learning.methods.registry import METHODS, Entry
from adaptd.learning.plan import Plan
from adaptd.learning.stepper import NotFinite


class Toy(Method[NoOptions]):
    """MCD's three steps: both classifiers learn the source; they part on the target; the encoder brings them together."""

    kept = ("gaps",)

    def build(self) -> None:
        """A second classifier; all of it, the classifiers, and the encoder are stepped by rules of their own."""
        width, classes = self.model.classifier.in_features, self.model.classifier.out_features
        self.second = self.add_network("second", lambda: nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, classes)))
        self.everything = self.train("encoder", "classifier", "second")
        self.heads = self.train("second", "classifier", rule="adamw")
        self.encoder = self.train("encoder", rule="rmsprop", rate=0.1)
        self.gaps = torch.zeros(0)

    def update(self, batch: Batch) -> Update:
        """Three steps, the last of which is the loop's."""
        source = self.entropy(batch)
        self.everything.backward(source)
        self.everything.step()
        self.heads.backward(self.entropy(batch) - self.gap(batch))
        self.heads.step()
        gap = self.gap(batch)
        self.encoder.backward(gap)
        self.gaps = torch.cat([self.gaps, gap.detach()[None]])
        return Update({"source": source.item(), "gap": gap.item()})

    def entropy(self, batch: Batch) -> Tensor:
        """Cross-entropy of both classifiers on the source."""
        features = self.model.encode(batch.parts[0].images)
        return sum(
            functional.cross_entropy(head(features), batch.parts[0].labels) for head in (self.model.classifier, self.second)
        )

    def gap(self, batch: Batch) -> Tensor:
        """How far the classifiers differ on the target."""
        features = self.model.encode(batch.parts[-1].images)
        return (self.model.classifier(features).softmax(1) - self.second(features).softmax(1)).abs().mean()


@pytest.fixture
def begin(monkeypatch, settings, squares):
    """A training of the toy method, which only these tests register."""
    monkeypatch.setitem(METHODS, "toy", Entry(f"{__name__}:Toy"))

    def make(seed: int = 1, **training) -> Training:
        chosen = settings(**training)
        data = EpisodeData(squares(36, 0), (squares(9, 1000, tint=20),), squares(40, 3000, tint=60))
        return Training(build_classifier(chosen.model, seed), data, Plan.for_adaptation(chosen, "toy"))

    return make


def changed(one: dict[str, Tensor], two: dict[str, Tensor]) -> set[str]:
    """Names of tensors that differ in a bit."""
    assert one.keys() == two.keys()
    return {name for name in one if not torch.equal(one[name], two[name])}


def parts(training: Training) -> dict[str, Tensor]:
    """A copy of every group's parameters, as one vector."""
    networks = training.method.parameters.networks
    return {name: nn.utils.parameters_to_vector(network.parameters()).detach().clone() for name, network in networks.items()}


def test_each_step_moves_its_groups_alone(begin, monkeypatch):
    """Of each of the three steps the groups move that it was asked for, in whatever order they lie; the projector never."""
    training = begin()
    training.begin()
    moved = []
    take = stepper_module.Stepper.take

    def watched(stepper) -> None:
        before, rules = (
            parts(training),
            [rule_state(other) for other in training.method.parameters.steppers if other is not stepper],
        )
        take(stepper)
        moved.append(changed(before, parts(training)))
        after = [rule_state(other) for other in training.method.parameters.steppers if other is not stepper]
        assert all(not changed(one, two) for one, two in zip(rules, after, strict=True))

    monkeypatch.setattr(stepper_module.Stepper, "take", watched)
    next(iter(training))
    assert moved == [{"encoder", "classifier", "second"}, {"classifier", "second"}, {"encoder"}]


def rule_state(stepper) -> dict[str, Tensor]:
    """A copy of an update rule's state."""
    return {name: value.clone() for name, value in stepper.rule.tensors().items()}


def test_rows_are_over_its_own_groups(begin):
    """Each stepper's rows are as long as its groups, θ as long as all of them, and the projector is in none."""
    parameters = begin().method.parameters
    size = {name: sum(p.numel() for p in network.parameters()) for name, network in parameters.networks.items()}
    assert [s.rows.shape[1] for s in parameters.steppers] == [sum(size[group] for group in s.groups) for s in parameters.steppers]
    assert parameters.theta.numel() == sum(size.values()) - size["projector"]


def test_groups_that_lie_apart_move_as_one_vector(begin):
    """A stepper whose groups stand in another order than in θ moves each by its own part of row 0."""
    training = begin()
    heads, before = training.method.heads, parts(training)
    heads.rule.apply = lambda theta, gradient, rate: theta.sub_(gradient)
    heads.rows[0] = torch.arange(heads.rows.shape[1]).float()
    heads.take()
    after = parts(training)
    both = torch.cat([before[name] - after[name] for name in ("second", "classifier")])
    torch.testing.assert_close(both, heads.rows[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stop", [0, 1, 4, 7])
def test_it_resumes_bit_for_bit(begin, tmp_path, stop):
    """Networks, update rules and tensors of its own are in the checkpoint, without a line of the method's."""
    whole = begin()
    list(whole)
    stopped = begin()
    for _ in zip(range(stop), stopped, strict=False):
        pass
    digest = write_checkpoint(tmp_path / "checkpoint", stopped.state())
    resumed = begin(seed=77)
    resumed.method.second[1].weight.data.zero_()
    resumed.restore(read_checkpoint(tmp_path / "checkpoint", digest))
    list(resumed)
    assert changed(whole.state().tensors, resumed.state().tensors) == set()
    assert len(resumed.method.gaps) == whole.steps
    assert torch.equal(whole.finish().memory.ids, resumed.finish().memory.ids)


@pytest.mark.parametrize("stage", ["entropy", "gap"])
def test_a_step_that_is_not_finite_is_undone_whole(begin, monkeypatch, stage):
    """Wherever it turns up, after a step or two that were taken already, everything is as before, and the episode goes on."""
    training = begin()
    steps = iter(training)
    next(steps)
    before, calls = training.state().tensors, []
    original = getattr(Toy, stage)

    def poisoned(method, batch):
        calls.append(parts(training))
        return original(method, batch) * (torch.nan if len(calls) == 2 else 1.0)

    monkeypatch.setattr(Toy, stage, poisoned)
    assert next(steps).skipped
    assert changed(calls[0], calls[1]), "a step had been taken"
    assert changed(before, training.state().tensors) == set()
    assert not next(steps).skipped
    assert changed(before, training.state().tensors) >= {"theta", "method.gaps", "rule.1.exp_avg", "rule.2.square"}
    assert not any(report.skipped for report in steps)


def test_too_many_of_them_end_the_episode(begin, monkeypatch):
    """The loop counts for every method."""
    monkeypatch.setattr(Toy, "gap", lambda method, batch: method.second[1].weight.sum() * torch.inf)
    with pytest.raises(NonFiniteSteps, match="2 steps in a row"):
        list(begin(max_nonfinite_steps=2))


def test_every_gradient_passes_the_one_reduce_point(begin, monkeypatch):
    """Each of the three steps' rows are added up over the ranks, once, before the step is taken."""
    passed = []
    monkeypatch.setattr(stepper_module, "reduce_sums", lambda *sums: passed.append([len(sums), sums[0].shape[1]]))
    training = begin()
    next(iter(training))
    assert passed == [[1, stepper.rows.shape[1]] for stepper in training.method.parameters.steppers]


def test_a_gradient_too_large_to_be_squared_is_not_finite(begin):
    """Its running mean would be infinite for ever, and its parameter would never move again."""
    stepper = begin().method.everything
    stepper.rows[0].fill_(1e18)
    stepper.check()
    stepper.rows[0, 3] = -1e22
    with pytest.raises(NotFinite):
        stepper.check()
