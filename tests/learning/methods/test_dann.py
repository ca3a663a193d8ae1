"""DANN: the schedule, and the gradient that reversal makes of two losses."""

from math import exp

import pytest
import torch
from torch.nn import functional

from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.methods.dann import reversal_strength
from adaptd.learning.plan import Plan


@pytest.fixture
def begin(settings, squares):
    """An episode with DANN: a source, a memory and a target."""
    data = EpisodeData(squares(36, 0), (squares(9, 1000, tint=20),), squares(40, 3000, tint=60))

    def make(**options) -> Training:
        chosen = settings(options={"dann": options})
        episode = Training(build_classifier(chosen.model, seed=1), data, Plan.for_adaptation(chosen, "dann"))
        episode.begin()
        return episode

    return make


def test_the_schedule_by_hand():
    """λ_p = 2/(1 + exp(−10p)) − 1: 0 at the start, and tanh(5p) by another way of writing it."""
    assert reversal_strength(0.0, 10.0) == 0.0
    assert reversal_strength(0.1, 10.0) == pytest.approx(0.46211716)
    assert reversal_strength(0.5, 10.0) == pytest.approx(0.98661430)
    assert reversal_strength(1.0, 10.0) == pytest.approx((1 - exp(-10)) / (1 + exp(-10)))
    assert reversal_strength(0.7, 0.0) == 0.0


@pytest.mark.parametrize("step", [0, 1, 5])
def test_the_gradient_is_the_publications(begin, step):
    """Encoder: ∂L_y − λ·∂L_d; classifier: ∂L_y; D: ∂L_d, not scaled: each loss by itself, from autograd, without reversal."""
    episode = begin()
    method, model, batch = episode.method, episode.model, episode.batches[step]
    (source, target), strength = batch.parts, reversal_strength(step / episode.steps, 10.0)
    classes = functional.cross_entropy(model(source.images), source.labels)
    domains = -functional.logsigmoid(method.discriminator(model.encode(source.images))).mean()
    domains = domains - functional.logsigmoid(-method.discriminator(model.encode(target.images))).mean()

    def gradient(loss, network):
        return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(network.parameters()), retain_graph=True)])

    expected = [
        gradient(classes, model.encoder) - strength * gradient(domains, model.encoder),
        gradient(classes, model.classifier),
        gradient(domains, method.discriminator),
    ]
    update = method.update(batch)
    torch.testing.assert_close(method.stepper.rows[0], torch.cat(expected), rtol=1e-3, atol=1e-6)
    assert update.losses == pytest.approx({"source": classes.item(), "discriminator": domains.item()}, rel=1e-5)
    assert update.norms["total"] == pytest.approx(torch.cat(expected).norm().item(), rel=1e-4)


def test_memories_have_no_part(begin):
    """A batch is source and target: the memories' share is the target's, and a memory is kept all the same."""
    episode = begin()
    assert [(pool.name, pool.share) for pool in episode.method.pools] == [("source", 4), ("target", 12)]
    assert episode.method.pools[-1].first_row == 36 + 9
    list(episode)
    assert len(episode.finish().memory) == 10


def test_without_gamma_the_encoder_learns_the_source_alone(begin):
    """γ = 0 is no reversal, at any time: D learns, and nothing of it reaches the encoder."""
    episode = begin(gamma=0.0)
    batch = episode.batches[5]
    loss = functional.cross_entropy(episode.model(batch.parts[0].images), batch.parts[0].labels)
    expected = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(episode.model.encoder.parameters()))])
    episode.method.update(batch)
    torch.testing.assert_close(episode.method.stepper.rows[0][: len(expected)], expected, rtol=1e-3, atol=1e-6)
