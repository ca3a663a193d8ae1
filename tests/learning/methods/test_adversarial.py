"""Gradient reversal, the discriminator and ADDA's two players, against values made by hand."""

from math import exp, log

import pytest
import torch
from torch import nn

from adaptd.learning import stepper as stepper_module
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.methods.adversarial import discriminator_loss, inverted_losses, make_discriminator, reverse
from adaptd.learning.plan import Plan
from adaptd.learning.weights import load_classifier, save_classifier

UNWEIGHTED = {"source_weight": 0.0, "memory_weight": 0.0}
"""CUA with ADDA's loss alone."""


@pytest.fixture
def begin(settings, squares):
    """Begin an episode with a method, ready for `update`."""
    data = EpisodeData(squares(36, 0), (squares(9, 1000, tint=20), squares(7, 2000, tint=40)), squares(40, 3000, tint=60))

    def make(name: str, options: dict | None = None, **training) -> Training:
        chosen = settings(options={name: options or {}}, **training)
        episode = Training(build_classifier(chosen.model, seed=1), data, Plan.for_adaptation(chosen, name))
        episode.begin()
        return episode

    return make


def flat(network: nn.Module) -> torch.Tensor:
    """A copy of a network's parameters as one vector."""
    return nn.utils.parameters_to_vector(network.parameters()).detach().clone()


@pytest.mark.parametrize("strength", [0.0, 0.25, 1.0])
def test_reversal_is_nothing_forward_and_minus_its_strength_backward(strength):
    """For y = Σ w·R(x) the value is Σ w·x, to the bit, and dy/dx = −strength·w; w's own gradient is x, as without."""
    x = torch.tensor([1.0, -2.0, 0.1], requires_grad=True)
    w = torch.tensor([3.0, 0.5, -1.0], requires_grad=True)
    reversed_x = reverse(x, strength)
    assert torch.equal(reversed_x, x)
    (w * reversed_x).sum().backward()
    assert torch.equal(x.grad, -strength * w.detach())
    assert torch.equal(w.grad, x.detach())


def test_losses_are_those_of_the_publication():
    """With D = σ(logit): −log D(s) − log(1 − D(t)), a mean for each domain; the encoder's is −log D(t)."""
    source, target = torch.tensor([2.0, 0.0]), torch.tensor([-1.0, 0.5, 3.0])
    d = [1 / (1 + exp(-v)) for v in (2.0, 0.0, -1.0, 0.5, 3.0)]
    expected = -(log(d[0]) + log(d[1])) / 2 - sum(log(1 - v) for v in d[2:]) / 3
    assert discriminator_loss(source, target).item() == pytest.approx(expected, rel=1e-6)
    assert inverted_losses(target).tolist() == pytest.approx([-log(v) for v in d[2:]], rel=1e-6)
    assert discriminator_loss(torch.zeros(4), torch.zeros(2)).item() == pytest.approx(2 * log(2)), "a D that knows nothing"


def test_losses_agree_with_binary_cross_entropy_on_labels():
    """Against torch's own: labels 1 for the source and 0 for the target; 1 for the target where they are inverted."""
    source, target = torch.randn(7, generator=torch.manual_seed(1)), torch.randn(5, generator=torch.manual_seed(2)) * 30
    bce = nn.functional.binary_cross_entropy_with_logits
    expected = bce(source, torch.ones(7)) + bce(target, torch.zeros(5))
    torch.testing.assert_close(discriminator_loss(source, target), expected)
    torch.testing.assert_close(inverted_losses(target).mean(), bce(target, torch.ones(5)))


def test_the_players_pull_a_target_logit_in_opposite_directions():
    """D's step lowers a target image's logit, the encoder's raises it, as −(1 − D) where D is sure and reversal would fade."""
    logit = torch.tensor([-6.0, 0.0, 2.0], requires_grad=True)
    d = torch.sigmoid(logit.detach())
    (own,) = torch.autograd.grad(discriminator_loss(torch.zeros(1), logit), logit)
    (inverted,) = torch.autograd.grad(inverted_losses(logit).mean(), logit)
    torch.testing.assert_close(own, d / 3)
    torch.testing.assert_close(inverted, -(1 - d) / 3)
    assert inverted[0].abs() > 100 * own[0].abs()


def test_the_discriminator_gives_one_logit_an_image():
    """Three linear layers, features → hidden → hidden → 1, as a vector."""
    discriminator = make_discriminator(6, 5)
    assert [tuple(p.shape) for p in discriminator.parameters()] == [(5, 6), (5,), (5, 5), (5,), (1, 5), (1,)]
    assert discriminator(torch.zeros(3, 6)).shape == (3,)


@pytest.mark.parametrize("name", ["cua", "gra"])
def test_encoder_and_discriminator_move_each_for_itself(begin, name):
    """D's loss gives the encoder nothing, the encoder's loss gives D nothing, and each has its sign: against autograd."""
    episode = begin(name, UNWEIGHTED if name == "cua" else None)
    method, model, batch = episode.method, episode.model, episode.batches[0]
    source = model.encode(batch.parts[0].images).detach()
    target = model.encode(batch.parts[-1].images)
    logits = method.discriminator(target)
    wanted = -torch.sigmoid(logits).log().mean()
    encoder = torch.autograd.grad(wanted, list(model.encoder.parameters()))
    told = -torch.sigmoid(method.discriminator(source)).log().mean()
    told = told - (1 - torch.sigmoid(method.discriminator(target.detach()))).log().mean()
    discriminator = torch.autograd.grad(told, list(method.discriminator.parameters()))
    update = method.update(batch)
    torch.testing.assert_close(method.adversary.rows[0], torch.cat([g.reshape(-1) for g in discriminator]), rtol=1e-4, atol=1e-7)
    if name == "cua":  # gra's is projected: test_gra
        found = method.stepper.rows[0][: sum(g.numel() for g in encoder)]
        torch.testing.assert_close(found, torch.cat([g.reshape(-1) for g in encoder]), rtol=1e-3, atol=1e-6)
    assert update.losses["adversarial"] == pytest.approx(wanted.item(), rel=1e-5)
    assert update.losses["discriminator"] == pytest.approx(told.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["cua", "gra"])
def test_a_step_of_the_encoder_alone_fools_the_discriminator_more(begin, name, monkeypatch):
    """With D held still, the encoder's steps raise D's mean logit on the target; with the encoder held still, D lowers it."""
    rise = {}
    for held in ("discriminator", "encoder"):
        episode = begin(name, UNWEIGHTED if name == "cua" else None, optimizer="sgd", learning_rate=0.01)
        method, images = episode.method, episode.batches[0].parts[-1].images
        before = method.discriminator(episode.model.encode(images)).mean().item()
        take = stepper_module.Stepper.take

        def limited(stepper, take=take, held=held):
            if held not in stepper.groups:
                take(stepper)

        monkeypatch.setattr(stepper_module.Stepper, "take", limited)
        next(iter(episode))
        monkeypatch.setattr(stepper_module.Stepper, "take", take)
        rise[held] = method.discriminator(episode.model.encode(images)).mean().item() - before
    assert rise["discriminator"] > 0 > rise["encoder"]


@pytest.mark.parametrize("name", ["cua", "gra"])
def test_the_fixed_encoder_is_the_first_one_and_never_moves(begin, name):
    """It equals the model's encoder as the episode begins, and is the same to the bit after it, while the model's has moved."""
    episode = begin(name)
    first = flat(episode.model.encoder)
    assert torch.equal(flat(episode.method.fixed_encoder), first)
    list(episode)
    assert torch.equal(flat(episode.method.fixed_encoder), first)
    assert not torch.equal(flat(episode.model.encoder), first)
    assert all("fixed_encoder" not in stepper.groups for stepper in episode.method.parameters.steppers)


@pytest.mark.parametrize("name", ["cua", "gra"])
def test_a_resumed_episode_has_the_fixed_encoder_of_its_beginning(begin, name):
    """Even where the resumed episode was built on a model that had moved: the checkpoint brings it, and D."""
    episode = begin(name)
    next(iter(episode))
    resumed = begin(name)
    resumed.method.fixed_encoder[0].weight.data.zero_()
    resumed.restore(episode.state())
    assert torch.equal(flat(resumed.method.fixed_encoder), flat(episode.method.fixed_encoder))
    assert torch.equal(flat(resumed.method.discriminator), flat(episode.method.discriminator))


@pytest.mark.parametrize("name", ["dann", "cua", "gra"])
def test_what_only_training_needs_is_not_in_the_saved_model(begin, name, tmp_path):
    """The file has the names and sizes of a classifier that no method has touched, and loads as one."""
    episode = begin(name)
    before = {key: value.shape for key, value in episode.model.state_dict().items()}
    list(episode)
    episode.finish()
    (tmp_path / "model").write_bytes(save_classifier(episode.model))
    loaded = load_classifier(tmp_path / "model").state_dict()
    assert {key: value.shape for key, value in loaded.items()} == before
    assert all(torch.equal(value, episode.model.state_dict()[key]) for key, value in loaded.items())


@pytest.mark.parametrize("name", ["dann", "cua", "gra"])
def test_the_networks_are_the_seeds(begin, name):
    """The same seed gives the same D, another one another."""
    one, same, other = (flat(begin(name, seed=seed).method.discriminator) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(("rule", "rate"), [("sgd", 0.1), ("adamw", 1.0), ("rmsprop", 1.0)])
def test_the_discriminator_learns_at_adamws_rate(begin, rule, rate, monkeypatch):
    """Whatever rule moves the model: with SGD's larger rate D still takes AdamW's; `discriminator_rate` multiplies it."""
    seen = []
    episode = begin("gra", {"discriminator_rate": 3.0}, optimizer=rule, learning_rate=0.02)
    monkeypatch.setattr(episode.method.adversary.rule, "apply", lambda theta, gradient, chosen: seen.append(chosen))
    next(iter(episode))
    assert seen == pytest.approx([3 * rate * 0.02])
