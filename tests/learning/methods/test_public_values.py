"""Losses and gradients equal those of independent public implementations; benchmarks/public_values.py made their numbers."""

import json
from pathlib import Path

import pytest
import torch

from adaptd.learning.methods.adversarial import discriminator_loss, reverse
from adaptd.learning.methods.mcd import discrepancy
from benchmarks.public_values import make_values

PUBLIC = json.loads(Path(__file__).with_name("public_values.json").read_text())


def test_discrepancy_and_its_gradient():
    """As pytorch-adapt's MCDLoss."""
    one, two = make_values(6, 4, 0.0).requires_grad_(), make_values(6, 4, 1.0)
    found = discrepancy(one, two)
    assert found.item() == pytest.approx(PUBLIC["discrepancy"], rel=1e-12)
    (gradient,) = torch.autograd.grad(found, one)
    torch.testing.assert_close(gradient, torch.tensor(PUBLIC["discrepancy_gradient"], dtype=torch.float64))


def test_gradient_reversal():
    """As pytorch-adapt's GradientReversal."""
    features = make_values(5, 3, 2.0).requires_grad_()
    (gradient,) = torch.autograd.grad(reverse(features, 0.3).square().sum(), features)
    wanted = torch.tensor(PUBLIC["reversed_gradient"], dtype=torch.float64)
    torch.testing.assert_close(gradient, wanted, rtol=1e-6, atol=1e-7)  # pytorch-adapt's weight is a float32


def test_discriminator_loss():
    """As skada's DANNLoss: the sum of both domains' mean losses."""
    source, target = make_values(7, 1, 0.5).flatten(), make_values(4, 1, 3.0).flatten()
    assert discriminator_loss(source, target).item() == pytest.approx(PUBLIC["discriminator_loss"], rel=1e-6)
