"""Methods: what each makes of the same batch."""

from math import sqrt

import pytest
import torch
from torch.nn import functional

from adaptd.errors import ConfigError
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.grcl import contrastive_loss
from adaptd.learning.loop import Training
from adaptd.learning.methods.registry import METHODS, get_entry, list_methods, section_name
from adaptd.learning.methods.settings import MethodSettings
from adaptd.learning.plan import Plan


@pytest.fixture
def data(squares):
    """A source, two memories and a target."""
    return EpisodeData(squares(36, 0), (squares(9, 1000, tint=20), squares(7, 2000, tint=40)), squares(40, 3000, tint=60))


@pytest.fixture
def begin(settings, data):
    """Begin an episode with a method, ready for `update`."""

    def make(name: str, **options) -> Training:
        chosen = settings(options={section_name(name): options})
        training = Training(build_classifier(chosen.model, seed=1), data, Plan.for_adaptation(chosen, name))
        training.begin()
        return training

    return make


def gradient(episode: Training, weights: dict[str, float]) -> torch.Tensor:
    """The gradient of L_q + Σ weight · cross-entropy over the first batch, straight from autograd."""
    batch, model = episode.batches[0], episode.model
    features = model.encode(batch.images)
    loss = contrastive_loss(model.embed(features), batch.rows, episode.method.contrast(batch)) / len(batch.rows)
    start = 0
    for part in batch.parts:
        own = model.classify(features[start : start + len(part.rows)])
        start += len(part.rows)
        if weights.get(part.name):
            loss = loss + weights[part.name] * functional.cross_entropy(own, part.labels)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)
    return torch.cat([g.reshape(-1) for g in found])


@pytest.mark.parametrize(
    ("name", "weights"),
    [("contrastive+source+memory", {"source": 0.5, "memory": 3.0}), ("contrastive+source", {"source": 0.5})],
)
def test_multitask_is_the_weighted_sum(begin, name, weights):
    """λ₁ and λ₂ weigh the losses; for Crt.+Src. there is no λ₂, though memories stay in the contrastive loss."""
    episode = begin(name, **{f"{part}_weight": weight for part, weight in weights.items()})
    expected = gradient(episode, weights)
    update = episode.method.update(episode.batches[0])
    torch.testing.assert_close(episode.method.stepper.rows[0], expected, rtol=1e-4, atol=1e-6)
    assert update.norms["total"] == pytest.approx(expected.norm().item(), rel=1e-4)
    assert update.losses.keys() == {"contrastive", *weights}


@pytest.mark.parametrize(
    ("name", "options", "names"),
    [
        ("grcl", {"constraints": "pooled"}, ["source", "memory"]),
        ("grcl", {"constraints": "per-domain"}, ["source", "memory-1", "memory-2"]),
        ("contrastive+sdc", {}, ["source"]),
    ],
)
def test_constrained_methods_are_g_plus_multipliers(begin, name, options, names):
    """They give w = g_t + Σ uᵢgᵢ for exactly the method's constraints, and w meets every one of them."""
    episode = begin(name, **options)
    plain = gradient(episode, {})
    own = {key: gradient(episode, {key: 1.0}) - plain for key in names}
    update = episode.method.update(episode.batches[0])
    w = episode.method.stepper.rows[0]
    assert list(update.multipliers) == names
    expected = plain + sum(u * own[key] for key, u in update.multipliers.items())
    torch.testing.assert_close(w, expected, rtol=1e-3, atol=1e-5)
    for key, g in own.items():
        assert (w @ g).item() >= -1e-4 * (w.norm() * g.norm()).item()
        assert update.norms[key] == pytest.approx(g.norm().item(), rel=1e-2)


def test_the_batch_moves_its_own_keys_only(begin):
    """After a step the keys of the batch's images have moved, all others not."""
    episode = begin("grcl")
    before = episode.method.bank.keys.clone()
    batch = episode.batches[0]
    next(iter(episode))
    moved = (episode.method.bank.keys != before).any(dim=1).nonzero().squeeze(1)
    assert torch.equal(moved, batch.rows.sort().values)


def test_the_bank_starts_as_the_models_own_view(begin, data):
    """Every row of a new bank is the unit projection of its own image, without augmentation."""
    episode = begin("grcl")
    images = torch.from_numpy(data.memories[1].pixels).float() / 255
    with torch.no_grad():
        expected = episode.model.embed(episode.model.encode(images))
    torch.testing.assert_close(episode.method.bank.keys[36 + 9 : 36 + 16], expected)
    assert len(episode.method.bank) == 36 + 9 + 7 + 40


def test_supervised_is_plain_cross_entropy(settings, data):
    """The gradient of the supervised method is that of the mean loss in training mode."""
    chosen = settings()
    episode = Training(build_classifier(chosen.model, seed=1), data, Plan.for_source(chosen))
    batch = episode.batches[0]
    loss = functional.cross_entropy(episode.model(batch.images), batch.parts[0].labels)
    expected = torch.cat(
        [
            g.reshape(-1)
            for g in torch.autograd.grad(loss, list(episode.model.parameters()), materialize_grads=True, allow_unused=True)
        ]
    )
    update = episode.method.update(batch)
    torch.testing.assert_close(episode.method.stepper.rows[0], expected)
    assert update.losses["source"] == pytest.approx(loss.item())
    assert update.norms["source"] == pytest.approx(sqrt(expected.square().sum().item()), rel=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_registered_with_what_is_its_own(settings, data, name):
    """The registry's name is the method's, its class is found, and its options are a section of [method] unless it has none."""
    chosen = settings()
    plan = Plan.for_source(chosen) if name == "supervised" else Plan.for_adaptation(chosen, name)
    training = Training(build_classifier(chosen.model, seed=1), data, plan)
    assert training.method.name == name
    assert type(training.method.options) is get_entry(name).options
    assert (section_name(name) in MethodSettings.model_fields) == bool(get_entry(name).options.model_fields)


def test_an_unknown_method_is_named_with_the_nearest():
    """A typing mistake is answered with the right word, anything else with all of them; supervised is no choice."""
    with pytest.raises(ConfigError, match="did you mean guarded"):
        get_entry("garded")
    with pytest.raises(ConfigError, match=r"choose one of grcl, contrastive\+sdc"):
        get_entry("magic")
    assert set(METHODS) - set(list_methods()) == {"supervised"}


@pytest.mark.parametrize("name", ["guarded", "self-training"])
def test_rows_are_over_what_is_trained_alone(begin, name):
    """Without a contrastive loss the projector is neither in θ nor in the gradients."""
    parameters = begin(name).method.parameters
    expected = sum(p.numel() for part in ("encoder", "classifier") for p in getattr(parameters.model, part).parameters())
    assert parameters.theta.numel() == parameters.steppers[0].rows.shape[1] == expected
