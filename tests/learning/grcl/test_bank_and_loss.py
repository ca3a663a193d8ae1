"""The feature bank and the contrastive loss, on numbers small enough to check by hand."""

from math import exp, log, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptd.learning.grcl import Bank, Contrast, contrastive_loss


def test_keys_are_normalised_and_carry_no_gradient():
    """Filling the bank makes unit vectors that are no part of any graph."""
    bank = Bank(torch.tensor([[3.0, 4.0], [0.0, 2.0]], requires_grad=True), momentum=0.5)
    torch.testing.assert_close(bank.keys, torch.tensor([[0.6, 0.8], [0.0, 1.0]]))
    assert not bank.keys.requires_grad


def test_update_moves_towards_z_with_momentum():
    """A key becomes normalise(m·k + (1 - m)·z), with a plus sign, and only for the rows given."""
    bank = Bank(torch.eye(2), momentum=0.75)
    bank.update([torch.tensor([0])], [torch.tensor([[0.0, 1.0]])])
    length = sqrt(0.75**2 + 0.25**2)
    torch.testing.assert_close(bank.keys, torch.tensor([[0.75 / length, 0.25 / length], [0.0, 1.0]]))


def test_an_update_that_cancels_leaves_the_key():
    """Meeting z = -k with m = ½ has no direction, so the key stays a unit vector where it was."""
    bank = Bank(torch.eye(2), momentum=0.5)
    bank.update([torch.tensor([0])], [torch.tensor([[-1.0, 0.0]])])
    torch.testing.assert_close(bank.keys, torch.eye(2))


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.floats(0, 0.99))
def test_keys_stay_unit_vectors(seed, momentum):
    """Whatever moves the bank, every key has length one."""
    generator = torch.Generator().manual_seed(seed)
    bank = Bank(torch.randn(9, 5, generator=generator), momentum)
    for _ in range(3):
        rows = torch.randperm(9, generator=generator)[:4]
        bank.update([rows], [torch.nn.functional.normalize(torch.randn(4, 5, generator=generator), dim=1)])
    torch.testing.assert_close(bank.keys.norm(dim=1), torch.ones(9))


def test_negatives_are_different_rows_from_an_explicit_generator():
    """The same generator gives the same negatives, none twice; a small bank gives all it has."""
    bank = Bank(torch.randn(100, 4), momentum=0.5)
    first, again = (bank.draw(30, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, again)
    assert len(set(first.tolist())) == 30
    assert sorted(bank.draw(500, torch.Generator()).tolist()) == list(range(100))


def test_loss_by_hand():
    """One sample, one negative: -log(e^{1/τ·cos⁺} / (e^{cos⁺/τ} + e^{cos⁻/τ}))."""
    bank = Bank(torch.eye(2), momentum=0.5)
    z = torch.tensor([[0.6, 0.8]])
    loss = contrastive_loss(z, torch.tensor([0]), Contrast(bank, torch.tensor([1]), 0.5))
    assert loss.item() == pytest.approx(-log(exp(1.2) / (exp(1.2) + exp(1.6))), rel=1e-6)


def test_a_negative_that_is_the_sample_itself_is_masked():
    """An image among its own negatives counts for nothing; for another sample the same row is a negative."""
    bank = Bank(torch.eye(3), momentum=0.5)
    z = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    negatives = torch.tensor([0, 2])
    both = contrastive_loss(z, torch.tensor([0, 1]), Contrast(bank, negatives, 1.0))
    first = -log(exp(1) / (exp(1) + exp(0)))  # row 0 masked: one negative left
    second = -log(exp(1) / (exp(1) + 2 * exp(0)))
    assert both.item() == pytest.approx(first + second, rel=1e-6)


def test_the_loss_is_a_sum_over_samples():
    """Parts of a batch add up to the batch, in loss and gradient; a lone image without negatives costs nothing."""
    generator = torch.Generator().manual_seed(3)
    bank = Bank(torch.randn(20, 8, generator=generator), momentum=0.5)
    contrast = Contrast(bank, bank.draw(10, generator), 0.07)
    z = torch.nn.functional.normalize(torch.randn(6, 8, generator=generator), dim=1).requires_grad_()
    rows = torch.arange(6)
    whole = contrastive_loss(z, rows, contrast)
    parts = contrastive_loss(z[:2], rows[:2], contrast) + contrastive_loss(z[2:], rows[2:], contrast)
    torch.testing.assert_close(whole, parts)
    torch.testing.assert_close(torch.autograd.grad(whole, z)[0], torch.autograd.grad(parts, z)[0])
    alone = contrastive_loss(z[:1], rows[:1], Contrast(bank, torch.tensor([0]), 0.07))
    assert alone.item() == 0
