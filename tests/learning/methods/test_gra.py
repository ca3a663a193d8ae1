"""GRA: ADDA's gradient, projected as GRCL projects the contrastive one."""

import pytest
import torch
from torch.nn import functional

from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.grcl import project
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan

NAMES = {"pooled": ["source", "memory"], "per-domain": ["source", "memory-1", "memory-2"]}


@pytest.fixture
def begin(settings, squares):
    """An episode with GRA: a source, two memories or none, and a target."""

    def make(memories: int = 2, seed: int = 1, constraints: str = "pooled", **training) -> Training:
        chosen = settings(options={"gra": {"constraints": constraints}}, **training)
        kept = (squares(9, 1000, tint=20), squares(7, 2000, tint=40))[:memories]
        data = EpisodeData(squares(36, 0), kept, squares(40, 3000, tint=60))
        episode = Training(build_classifier(chosen.model, seed=seed), data, Plan.for_adaptation(chosen, "gra"))
        episode.begin()
        return episode

    return make


def gradients(episode: Training, step: int) -> dict[str, torch.Tensor]:
    """g_t and each constraint's gradient over a batch, straight from autograd, in float64."""
    batch, model = episode.batches[step], episode.model
    losses = {part.name: functional.cross_entropy(model(part.images), part.labels) for part in batch.parts[:-1]}
    losses["target"] = functional.softplus(-episode.method.discriminator(model.encode(batch.parts[-1].images))).mean()
    parameters = [*model.encoder.parameters(), *model.classifier.parameters()]
    return {
        name: torch.cat(
            [g.reshape(-1).double() for g in torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)]
        )
        for name, loss in losses.items()
    }


@pytest.mark.parametrize("constraints", NAMES)
def test_the_step_is_grcls_projection_of_the_adversarial_gradient(begin, constraints):
    """W = g_t + Σ uᵢgᵢ with GRCL's u, over many batches and models; w meets every constraint, and some are active."""
    names, active = NAMES[constraints], 0
    for seed in range(6):
        episode = begin(seed=seed, constraints=constraints)
        for step in range(3):
            own = gradients(episode, step)
            rows = torch.stack([own["target"], *(own[name] for name in names)])
            multipliers = project(rows @ rows.T).multipliers
            episode.method.stepper.clear()
            update = episode.method.update(episode.batches[step])
            w = episode.method.stepper.rows[0].double()
            assert list(update.multipliers) == names
            assert list(update.multipliers.values()) == pytest.approx(multipliers, rel=1e-2, abs=1e-4)
            expected = own["target"] + sum(u * own[name] for name, u in zip(names, multipliers, strict=True))
            torch.testing.assert_close(w, expected, rtol=1e-3, atol=1e-5)
            assert all((w @ own[name]).item() >= -1e-4 * (w.norm() * own[name].norm()).item() for name in names)
            active += sum(u > 0 for u in multipliers)
    assert active > 0


def test_the_step_taken_obeys_both_constraints(begin):
    """With GRA's own rule, SGD, θ moves by exactly −rate · w: to first order neither loss rises, where g_t alone raises one."""
    raised = 0
    for seed in range(6):
        episode = begin(seed=seed)
        own = gradients(episode, 0)
        before = episode.method.parameters.theta[: len(own["target"])].double()
        report = next(iter(episode))
        moved = episode.method.parameters.theta[: len(own["target"])].double() - before
        for name in ("source", "memory"):
            assert (moved @ own[name]).item() <= 1e-4 * (moved.norm() * own[name].norm()).item()
            raised += (own["target"] @ own[name]).item() < 0
        assert report.active.keys() == {"source", "memory"}
    assert raised > 0


def test_an_unconstrained_gradient_stays_as_it_is(begin):
    """Where g_t hurts nobody w is g_t."""
    for seed in range(12):
        episode = begin(memories=0, seed=seed)
        own = gradients(episode, 0)
        if (own["target"] @ own["source"]).item() > 0:
            break
    update = episode.method.update(episode.batches[0])
    assert update.multipliers == {"source": 0.0}
    torch.testing.assert_close(episode.method.stepper.rows[0].double(), own["target"], rtol=1e-3, atol=1e-6)


def test_reports_name_losses_norms_and_constraints(begin):
    """Each row's mean loss and norm, and D's loss."""
    episode = begin()
    own = gradients(episode, 0)
    update = episode.method.update(episode.batches[0])
    assert update.losses.keys() == {"adversarial", "source", "memory", "discriminator"}
    norms = {"adversarial": own["target"], "source": own["source"], "memory": own["memory"]}
    assert update.norms == pytest.approx({name: g.norm().item() for name, g in norms.items()}, rel=1e-3)


def test_large_batches_are_taken_in_pieces_of_the_same_sum(begin, monkeypatch):
    """However many passes a part takes, w and the discriminator's gradient are the same."""
    found = []
    for most in (128, 3):
        monkeypatch.setattr("adaptd.learning.grcl.step.IMAGES_PER_PASS", most)
        episode = begin()
        episode.method.update(episode.batches[0])
        found.append((episode.method.stepper.rows[0].clone(), episode.method.adversary.rows[0].clone()))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-6)
