"""One GRCL step: part-wise gradients, division, projection."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from adaptd.learning.grcl import Bank, Contrast, GradientRows, Part, accumulate, contrastive_loss, divide_and_project
from adaptd.learning.grcl import step as step_module


class Tiny(nn.Module):
    """f, q, h on 2 x 2 images."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.q, self.h = nn.Linear(12, 8), nn.Linear(8, 4), nn.Linear(8, 3)

    def encode(self, images):
        """The encoder f."""
        return torch.tanh(self.f(images.flatten(1)))

    def embed(self, features):
        """The projector q."""
        return functional.normalize(self.q(features), dim=1)

    def classify(self, features):
        """The classifier h."""
        return self.h(features)


@pytest.fixture
def scene():
    """A network, a bank over 12 images, and a batch of three parts."""
    torch.manual_seed(0)
    network, images, labels = Tiny(), torch.rand(12, 3, 2, 2), torch.randint(3, (12,))
    with torch.no_grad():
        bank = Bank(network.embed(network.encode(images)), momentum=0.5)
    contrast = Contrast(bank, torch.tensor([0, 3, 5, 9, 11]), 0.07)
    rows = torch.arange(12)
    parts = [
        Part(images[:3], rows[:3], labels[:3], constraint=1),
        Part(images[3:7], rows[3:7], labels[3:7], constraint=2),
        Part(images[7:], rows[7:]),
    ]
    return network, images, labels, contrast, parts


def gradients(network, images, labels, contrast) -> torch.Tensor:
    """g_t, g_s, g_dm as whole-batch means, one forward each, straight from autograd."""
    parameters = list(network.parameters())

    def gradient(loss):
        grads = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        return torch.cat([g.reshape(-1) for g in grads])

    def entropy(rows):
        return functional.cross_entropy(network.classify(network.encode(images[rows])), labels[rows])

    whole = contrastive_loss(network.embed(network.encode(images)), torch.arange(12), contrast) / 12
    return torch.stack([gradient(whole), gradient(entropy(slice(0, 3))), gradient(entropy(slice(3, 7)))]).double()


def take(network, rows, parts, contrast):
    """A step up to w, into rows that are clear, and the bank moved if there is one."""
    rows.clear()
    sums = accumulate(network, rows, parts, contrast)
    step = divide_and_project(rows, sums)
    if step is not None:
        contrast.bank.update([part.rows for part in parts], sums.z)
    return step


def test_w_is_built_from_whole_batch_gradients(scene):
    """Part-wise sums, divided and projected, are g_t + u₁g_s + u₂g_dm of the whole batch, and both constraints hold."""
    network, images, labels, contrast, parts = scene
    rows = gradients(network, images, labels, contrast)
    flat = GradientRows(network.parameters(), rows=3)
    step = take(network, flat, parts, contrast)
    u = torch.tensor([1.0, *step.projection.multipliers], dtype=torch.float64)
    torch.testing.assert_close(flat.rows[0].double(), u @ rows, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(torch.tensor(step.norms), rows.norm(dim=1).float(), rtol=1e-4, atol=1e-6)
    assert (rows[1:] @ flat.rows[0].double() >= -1e-6).all()


def test_pieces_do_not_change_the_gradient(scene, monkeypatch):
    """Taking parts two images at a time gives the same w."""
    network, _, _, contrast, parts = scene
    flat = GradientRows(network.parameters(), rows=3)
    keys = contrast.bank.keys.clone()
    take(network, flat, parts, contrast)
    whole, moved = flat.rows[0].clone(), contrast.bank.keys.clone()
    contrast.bank.keys.copy_(keys)
    monkeypatch.setattr(step_module, "IMAGES_PER_PASS", 2)
    take(network, flat, parts, contrast)
    torch.testing.assert_close(flat.rows[0], whole, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(contrast.bank.keys, moved)


def test_losses_are_means_and_the_bank_moves(scene):
    """Reported losses are means over their own samples, and every image of the batch moves its key."""
    network, images, labels, contrast, parts = scene
    with torch.no_grad():
        source = functional.cross_entropy(network.classify(network.encode(images[:3])), labels[:3]).item()
    before = contrast.bank.keys.clone()
    parts = [Part(p.images.flip(3), p.rows, p.labels, p.constraint) for p in parts[1:]] + parts[:1]
    step = take(network, GradientRows(network.parameters(), rows=3), parts, contrast)
    assert step.losses[1] == pytest.approx(source, rel=1e-5)
    changed = (contrast.bank.keys != before).any(dim=1)
    assert changed[3:].all()


def test_without_memory_there_is_one_constraint(scene):
    """In the first episode only the source constrains."""
    network, _, _, contrast, parts = scene
    step = take(network, GradientRows(network.parameters(), rows=2), [parts[0], parts[2]], contrast)
    assert len(step.projection.multipliers) == 1


def test_an_absent_constraint_is_dropped(scene):
    """A constraint row that no image of this batch belongs to has multiplier 0 and loss 0."""
    network, _, _, contrast, parts = scene
    step = take(network, GradientRows(network.parameters(), rows=3), [parts[0], parts[2]], contrast)
    assert step.projection.multipliers[1] == 0
    assert step.losses[2] == 0


def test_non_finite_values_move_nothing(scene):
    """With a NaN pixel there is no step, and the bank stays clean."""
    network, _, _, contrast, parts = scene
    before = contrast.bank.keys.clone()
    parts[2].images[0, 0, 0, 0] = torch.nan
    assert take(network, GradientRows(network.parameters(), rows=3), parts, contrast) is None
    assert torch.equal(contrast.bank.keys, before)
