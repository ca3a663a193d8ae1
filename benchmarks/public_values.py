r"""Numbers of independent public implementations, for tests to compare ours with. Not needed to run adaptd or its tests.

    pip install --target site --no-deps pytorch-adapt==0.0.83 pytorch-metric-learning torchmetrics lightning-utilities tqdm \
        skada==0.6.0 skorch tabulate scikit-learn scipy joblib threadpoolctl POT
    PYTHONPATH=site python -m benchmarks.public_values > tests/learning/methods/public_values.json

Discrepancy and gradient reversal are pytorch-adapt's, the domain loss is skada's.
"""

import json
from importlib import import_module

import torch
from torch import Tensor

from adaptd.learning.torchvision_compat import import_torchvision


def make_values(rows: int, columns: int, phase: float) -> Tensor:
    """The same numbers everywhere: no random generator has a part in them."""
    return 2 * torch.sin(torch.arange(rows * columns, dtype=torch.float64) * 1.7 + phase).view(rows, columns)


def main() -> None:
    """Print the numbers as JSON."""
    import_torchvision()  # beside a CPU torch, others can import it only after us
    layers, losses = import_module("pytorch_adapt.layers"), import_module("skada.deep")

    one, two = make_values(6, 4, 0.0).requires_grad_(), make_values(6, 4, 1.0)
    discrepancy = layers.MCDLoss()(one, two)
    (moved,) = torch.autograd.grad(discrepancy, one)
    features = make_values(5, 3, 2.0).requires_grad_()
    (reversed_gradient,) = torch.autograd.grad(layers.GradientReversal(0.3)(features).square().sum(), features)
    source, target = make_values(7, 1, 0.5).flatten(), make_values(4, 1, 3.0).flatten().requires_grad_()
    # skada calls the target 1, where we call the source 1: the negative logit is the same discriminator.
    domains = losses.DANNLoss()((-source).sigmoid().float(), (-target).sigmoid().float())
    found = {
        "discrepancy": discrepancy.item(),
        "discrepancy_gradient": moved.tolist(),
        "reversed_gradient": reversed_gradient.tolist(),
        "discriminator_loss": domains.item(),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
