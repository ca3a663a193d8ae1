"""MCD: its discrepancy, what each of its steps moves, and what is served."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from adaptd.learning import stepper as stepper_module
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.methods.mcd import discrepancy
from adaptd.learning.plan import Plan
from adaptd.learning.weights import load_classifier, save_classifier


@pytest.fixture
def begin(settings, squares):
    """An episode of MCD, begun."""

    def make(**options) -> Training:
        chosen = settings(options={"mcd": options}, learning_rate=0.001)
        data = EpisodeData(squares(36, 0), (squares(9, 1000, tint=20),), squares(40, 3000, tint=60))
        training = Training(build_classifier(chosen.model, seed=1), data, Plan.for_adaptation(chosen, "mcd"))
        training.begin()
        return training

    return make


def parts(training: Training) -> dict[str, torch.Tensor]:
    """A copy of every group's parameters."""
    networks = training.method.parameters.networks
    return {name: nn.utils.parameters_to_vector(network.parameters()).detach().clone() for name, network in networks.items()}


def rule_state(stepper) -> dict[str, torch.Tensor]:
    """A copy of an update rule's state."""
    return {name: value.clone() for name, value in stepper.rule.tensors().items()}


def test_discrepancy_by_hand():
    """The mean over images and classes of |p₁ − p₂|: 0.5, 0.3, 0.2 for one image, and 0 for one on which both agree."""
    one = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]]).log()
    two = torch.tensor([[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]]).log() + 3.0
    assert discrepancy(one, two).item() == pytest.approx((0.5 + 0.3 + 0.2) / 6)
    assert discrepancy(two, one).item() == pytest.approx((0.5 + 0.3 + 0.2) / 6)
    assert discrepancy(one, one).item() == 0


def test_discrepancy_is_at_most_two_by_classes():
    """Classifiers that are sure of different classes differ by 2/K."""
    sure = torch.full((5, 4), -1e4)
    assert discrepancy(sure.index_fill(1, torch.tensor(0), 0.0), sure.index_fill(1, torch.tensor(3), 0.0)).item() == 0.5


@pytest.mark.parametrize("count", [1, 3])
def test_each_step_moves_its_own(begin, monkeypatch, count):
    """A moves all, B the classifiers, C the encoder as often as asked; another's update rule and the projector never change."""
    training, taken = begin(generator_steps=count), []
    steppers, take = training.method.parameters.steppers, stepper_module.Stepper.take

    def watched(stepper) -> None:
        others = [other for other in steppers if other is not stepper]
        before, rules = parts(training), [rule_state(other) for other in others]
        take(stepper)
        after = parts(training)
        taken.append({name for name in before if not torch.equal(before[name], after[name])})
        for rule, other in zip(rules, others, strict=True):
            state = rule_state(other)
            assert rule.keys() == state.keys()
            assert all(torch.equal(rule[name], state[name]) for name in rule)

    monkeypatch.setattr(stepper_module.Stepper, "take", watched)
    next(iter(training))
    classifiers, encoder = {"classifier", "delta"}, {"encoder"}
    assert taken == [classifiers, encoder, classifiers, *[encoder] * count]


def test_the_gradients_are_those_of_the_publication(begin, monkeypatch):
    """A descends both cross-entropies on the source, B these minus the discrepancy on the target, C the discrepancy."""
    training = begin(generator_steps=1)
    method, batch, seen = training.method, training.batches[0], []
    take = stepper_module.Stepper.take

    def expected(groups, stage) -> torch.Tensor:
        features = training.model.encode(batch.images)
        both = [training.model.classifier(features) + sign * method.delta(features) for sign in (1, -1)]
        count = len(batch.parts[0].rows)
        source = sum(functional.cross_entropy(logits[:count], batch.parts[0].labels) for logits in both)
        gap = (both[0][count:].softmax(1) - both[1][count:].softmax(1)).abs().mean()
        loss = {"A": source, "B": source - gap, "C": gap}[stage]
        found = torch.autograd.grad(loss, method.parameters.list_parameters(groups))
        return torch.cat([gradient.reshape(-1) for gradient in found])

    def watched(stepper) -> None:
        stage = "AABC"[len(seen)]
        if stage != "A" or not seen:  # A's two steppers have the gradient at the same place, and the first one moves it
            torch.testing.assert_close(stepper.rows[0], expected(stepper.groups, stage), rtol=1e-4, atol=1e-6)
        seen.append(stage)
        take(stepper)

    monkeypatch.setattr(stepper_module.Stepper, "take", watched)
    next(iter(training))
    assert seen == list("AABC")


def test_what_is_served_is_the_mean_of_both(begin, tmp_path):
    """At the end as at the start the model's logits are the mean of F₁'s and F₂'s, which differ; a saved model has no δ."""
    training = begin()
    images, method = training.batches[0].images, training.method
    before = {name: value.clone() for name, value in training.model.state_dict().items()}
    list(training)
    with torch.no_grad():
        one, two = method.classify(training.model.encode(images))
        torch.testing.assert_close(training.model(images), (one + two) / 2)
        assert discrepancy(one, two).item() > 0
    training.finish()
    (tmp_path / "model").write_bytes(save_classifier(training.model))
    served = load_classifier(tmp_path / "model")
    assert served.state_dict().keys() == before.keys()
    torch.testing.assert_close(served(images), (one + two) / 2)


def test_memories_stay_out_of_a_batch(begin):
    """A batch is source and target; the memories' share is the target's, and a memory is kept all the same."""
    training = begin()
    assert [(part.name, len(part.rows)) for part in training.batches[0].parts] == [("source", 4), ("target", 10)]
    assert [pool.share for pool in training.method.pools] == [4, 12]
    list(training)
    assert len(training.finish().memory) == 10


def test_a_longer_step_c_brings_them_closer(begin):
    """With classifiers fixed, the encoder's steps lower the discrepancy on the target."""
    training = begin()
    method, images = training.method, training.batches[0].parts[-1].images
    found = []
    for _ in range(20):
        loss = method.disagreement(training.model.encode(images))
        found.append(loss.item())
        method.encoder.backward(loss)
        method.encoder.step()
    assert found[-1] < 0.7 * found[0]
