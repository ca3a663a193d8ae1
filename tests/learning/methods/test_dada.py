"""DADA: its losses by hand, mutual information where it is known, and what each loss moves."""

import math

import pytest
import torch
from torch import nn

from adaptd.learning import stepper as stepper_module
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.methods.dada import confusion_loss, mutual_information, perceptron, ring_loss
from adaptd.learning.optimizer import make_rule
from adaptd.learning.plan import Plan
from adaptd.learning.stepper import Stepper
from adaptd.learning.weights import save_classifier


@pytest.fixture
def begin(settings, squares):
    """An episode of DADA, begun."""

    def make(**options) -> Training:
        chosen = settings(options={"dada": options}, learning_rate=0.001)
        data = EpisodeData(squares(36, 0), (squares(9, 1000, tint=20),), squares(40, 3000, tint=60))
        training = Training(build_classifier(chosen.model, seed=1), data, Plan.for_adaptation(chosen, "dada"))
        training.begin()
        return training

    return make


def estimate(correlation: float) -> float:
    """What MINE finds between two Gaussians after some hundred steps, on points it was not trained on."""
    random = torch.Generator().manual_seed(3)

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        one, other = torch.randn(2, count, 1, generator=random)
        joined = correlation * one + math.sqrt(1 - correlation**2) * other
        return one, joined, torch.randperm(count, generator=random)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = perceptron(2, 64)
    optimizer = make_rule("adamw")
    theta = nn.utils.parameters_to_vector(network.parameters()).detach()
    for _ in range(400):
        loss = -mutual_information(network, *draw(256))
        gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(network.parameters()))])
        optimizer.apply(theta, gradient, 0.01)
        nn.utils.vector_to_parameters(theta, network.parameters())
    with torch.no_grad():
        return mutual_information(network, *draw(20000)).item()


def test_mutual_information_of_gaussians():
    """Independent: about 0, and never above it by much; correlated: positive, near the true −½ log(1 − ρ²) and not above it."""
    assert abs(estimate(0.0)) < 0.03
    for correlation in (0.6, -0.9):
        truth = -0.5 * math.log(1 - correlation**2)
        assert 0.75 * truth < estimate(correlation) < truth + 0.05


def test_mutual_information_by_hand():
    """For T(p, q) = p·q: the mean over pairs, minus the log of the mean exponential over the shuffled ones."""

    class Product(nn.Module):
        def forward(self, both: torch.Tensor) -> torch.Tensor:
            return both[:, :1] * both[:, 1:]

    p, q = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [-1.0]])
    expected = (3 - 2) / 2 - math.log((math.exp(-1) + math.exp(6)) / 2)
    assert mutual_information(Product(), p, q, torch.tensor([1, 0])).item() == pytest.approx(expected)


def test_ring_loss_by_hand():
    """Norms 5, 1 and 3 have mean 3: (4 + 4 + 0) / 9 / 6, whatever the scale. On a sphere there is nothing to lose."""
    features = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, -3.0]])
    assert ring_loss(features).item() == ring_loss(8 * features).item() == pytest.approx(8 / 54)
    assert ring_loss(torch.zeros(3, 2)).item() == 0, "dead features are not a number nobody knows"
    assert ring_loss(nn.functional.normalize(torch.randn(9, 5))).item() == pytest.approx(0, abs=1e-10)


def test_confusion_is_least_where_all_classes_are_alike():
    """Mean −log p: log K for a uniform prediction, more for any other."""
    assert confusion_loss(torch.zeros(4, 3)).item() == pytest.approx(math.log(3))
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
    assert confusion_loss(logits).item() == pytest.approx((math.log(2) + 2 * math.log(4)) / 3)


def repeat(training: Training, loss, groups: tuple[str, ...], times: int = 30) -> list[float]:
    """Descend one of the losses alone."""
    return [training.method._descend(loss(), *groups) for _ in range(times)]


def test_class_confusion_raises_the_entropy(begin):
    """Once C can tell classes from f_ci, descending L_ent makes its predictions more even, with C as it was."""
    training = begin()
    method, batch = training.method, training.batches[0]
    repeat(training, lambda: method.cross_entropy(batch.parts[0]), ("c_ci", "d_ci"), 60)

    def entropy() -> float:
        with torch.no_grad():
            p = method.c_ci(method.d_ci(training.model.encode(batch.images))).softmax(1)
        return -(p * p.log()).sum(1).mean().item()

    before, fixed = entropy(), method.c_ci.weight.clone()
    repeat(training, lambda: method.confusion(batch.images), ("d_ci",), 40)
    assert before < 0.9 * math.log(3)
    assert entropy() > before + 0.05
    assert torch.equal(fixed, method.c_ci.weight)


def test_reconstruction_falls(begin):
    """R and the disentanglers learn to give f_G back; the encoder is not made simpler for it."""
    training = begin()
    method, images = training.method, training.batches[0].images
    encoder = [p.clone() for p in training.model.encoder.parameters()]
    found = repeat(training, lambda: method.reconstruction(images), ("d_ds", "d_ci", "r"), 100)
    assert found[-1] < 0.3 * found[0]
    assert all(torch.equal(one, two) for one, two in zip(encoder, training.model.encoder.parameters(), strict=True))


def test_the_identifier_learns_and_is_fooled(begin):
    """DI and D_ds learn to tell the domains; the encoder then makes DI take each domain for the other more often."""
    training = begin()
    method, batch = training.method, training.batches[0]
    learned = repeat(training, lambda: method.identify(batch), ("di", "d_ds"), 60)
    assert learned[-1] < learned[0] - 0.05
    fooled = repeat(training, lambda: method.fool(batch), ("encoder",))
    assert fooled[-1] < fooled[0]


def test_the_estimator_climbs_and_the_others_descend(begin):
    """M's steps raise its estimate, the disentanglers' and the encoder's lower it."""
    training = begin()
    method, batch = training.method, training.batches[0]
    climbed = repeat(training, lambda: -method.mutual(batch), ("m",))
    assert -climbed[-1] > -climbed[0]
    lowered = repeat(training, lambda: method.mutual(batch), ("d_ds", "d_ci", "encoder"))
    assert lowered[-1] < lowered[0]


def test_each_loss_moves_its_own(begin, monkeypatch):
    """In the order of the publication's code; the classifier that is served moves by the source's labels alone."""
    training, taken = begin(), []
    take = Stepper.take

    def watched(stepper) -> None:
        taken.extend(stepper.groups)
        take(stepper)

    monkeypatch.setattr(stepper_module.Stepper, "take", watched)
    next(iter(training))
    assert taken == [
        *("classifier", "c_ci", "d_ci", "encoder"),
        "encoder",
        "m",
        *("d_ds", "d_ci", "encoder"),
        "d_ci",
        *("di", "d_ds"),
        "encoder",
        *("d_ds", "d_ci", "r"),
    ]


def test_only_the_classifier_is_saved(begin):
    """A saved model is as long as it was before the episode: none of the six networks is in it."""
    training = begin()
    before = len(save_classifier(training.model))
    reports = list(training)
    training.finish()
    assert len(save_classifier(training.model)) == before
    assert not any(report.skipped for report in reports)
    assert reports[0].losses.keys() == {"source", "ring", "mutual", "confusion", "domain", "reconstruction"}
