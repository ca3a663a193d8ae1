"""Parameters and gradients as views of flat buffers."""

import pytest
import torch
from torch import nn

from adaptd.learning.grcl import GradientRows, flatten


def small() -> nn.Sequential:
    """Two layers, one of which a loss can leave out."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def test_parameters_are_views_of_theta():
    """Changing theta changes the network, and the values survive the move."""
    network = small()
    before = [p.clone() for p in network.parameters()]
    theta = flatten(list(network.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    theta.zero_()
    assert all((p == 0).all() for p in network.parameters())


def test_backward_accumulates_into_the_chosen_row():
    """Each row holds the sum of its own losses' gradients, with zeros where no loss reaches."""
    network = small()
    flat = GradientRows(network.parameters(), rows=2)
    x = torch.randn(5, 3)
    expected = torch.autograd.grad(network(x).square().sum(), list(network.parameters()))
    for part in (x[:2], x[2:]):
        flat.backward(network(part).square().sum(), 1)
    flat.backward(network[0](x).sum())
    torch.testing.assert_close(flat.rows[1], torch.cat([g.reshape(-1) for g in expected]))
    assert (flat.rows[0][16:] == 0).all()
    assert len(flat.rows[1].unique()) > 10  # not one scalar broadcast over a tensor
    flat.clear()
    assert (flat.rows == 0).all()


@pytest.mark.parametrize("size", [7, 1 << 16, (1 << 16) + 3])
def test_gram_and_combine_agree_with_float64(size):
    """Chunks add up to the full product, with the accuracy of float64."""
    flat = GradientRows(nn.Linear(size, 1, bias=False).parameters(), rows=3)
    flat.rows.normal_(generator=torch.Generator().manual_seed(1))
    wide = flat.rows.double()
    torch.testing.assert_close(flat.gram(), wide @ wide.T, rtol=1e-13, atol=1e-9)
    expected = (0.5 * wide[0] + 3e5 * wide[1] - 1e-3 * wide[2]).float()
    flat.combine([0.5, 3e5, -1e-3])
    torch.testing.assert_close(flat.rows[0], expected, rtol=1e-6, atol=1e-6)


def test_near_parallel_rows_keep_their_angle():
    """1 - c² of two nearly equal rows with a million entries is right, and never negative."""
    flat = GradientRows(nn.Linear(1_000_000, 1, bias=False).parameters(), rows=2)
    generator = torch.Generator().manual_seed(2)
    flat.rows.normal_(generator=generator)
    flat.rows[1] = flat.rows[0] + 1e-4 * flat.rows[1]
    (aa, ab), (_, bb) = flat.gram().tolist()
    sine_squared = 1 - ab * ab / (aa * bb)
    assert sine_squared == pytest.approx(1e-8, rel=0.01)


def test_other_parameters_get_no_gradient():
    """Rows over one layer leave the layer before it alone, though the loss reaches it."""
    network = small()
    GradientRows(network[1].parameters()).backward(network(torch.randn(5, 3)).sum())
    assert all(p.grad is None for p in network[0].parameters())
    assert all(p.grad is not None for p in network[1].parameters())


def test_release_lets_go_of_gradients():
    """After an episode no parameter holds on to the rows."""
    network = small()
    flat = GradientRows(network.parameters())
    flat.backward(network(torch.randn(5, 3)).sum())
    flat.release()
    assert all(p.grad is None for p in network.parameters())
