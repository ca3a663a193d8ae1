"""CUA: a weighted sum of ADDA's loss and cross-entropies on source and memories."""

import pytest
import torch
from torch.nn import functional

from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan


@pytest.fixture
def begin(settings, squares):
    """An episode with CUA: a source, two memories or none, and a target."""

    def make(memories: int = 2, **options) -> Training:
        chosen = settings(options={"cua": options})
        kept = (squares(9, 1000, tint=20), squares(7, 2000, tint=40))[:memories]
        data = EpisodeData(squares(36, 0), kept, squares(40, 3000, tint=60))
        episode = Training(build_classifier(chosen.model, seed=1), data, Plan.for_adaptation(chosen, "cua"))
        episode.begin()
        return episode

    return make


def gradient(episode: Training, weights: dict[str, float]) -> torch.Tensor:
    """The gradient of −log D on the target + Σ weight · cross-entropy over the first batch, straight from autograd."""
    batch, model = episode.batches[0], episode.model
    loss = functional.softplus(-episode.method.discriminator(model.encode(batch.parts[-1].images))).mean()
    for part in batch.parts[:-1]:
        loss = loss + weights[part.name] * functional.cross_entropy(model(part.images), part.labels)
    parameters = [*model.encoder.parameters(), *model.classifier.parameters()]
    found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return torch.cat([g.reshape(-1) for g in found])


@pytest.mark.parametrize(
    "weights", [{"source": 1.0, "memory": 1.0}, {"source": 0.5, "memory": 3.0}, {"source": 2.0, "memory": 0.0}]
)
def test_the_gradient_is_that_of_the_weighted_sum(begin, weights):
    """λ₁ weighs the source, λ₂ the replay; a weight of 0 takes its loss out."""
    episode = begin(source_weight=weights["source"], memory_weight=weights["memory"])
    expected = gradient(episode, weights)
    update = episode.method.update(episode.batches[0])
    torch.testing.assert_close(episode.method.stepper.rows[0], expected, rtol=1e-3, atol=1e-6)
    assert update.norms["total"] == pytest.approx(expected.norm().item(), rel=1e-4)
    assert update.losses.keys() == {"adversarial", "discriminator", *(name for name, weight in weights.items() if weight)}


def test_replay_weighs_in_proportion(begin):
    """The gradient is linear in λ₂: what one more of it adds is the memories' own gradient, whatever λ₂ was."""
    found = []
    for weight in (0.0, 1.0, 2.0):
        episode = begin(memory_weight=weight)
        episode.method.update(episode.batches[0])
        found.append(episode.method.stepper.rows[0].clone())
    torch.testing.assert_close(found[2] - found[1], found[1] - found[0], rtol=1e-3, atol=1e-6)
    assert (found[1] - found[0]).norm() > 0


def test_the_first_episode_has_nothing_to_replay(begin):
    """Without memories their share is the target's, and there is no memory loss."""
    episode = begin(memories=0)
    report = next(iter(episode))
    assert [(pool.name, pool.share) for pool in episode.method.pools] == [("source", 4), ("target", 12)]
    assert report.losses.keys() == {"adversarial", "source", "discriminator"}
