"""Passes by ONNX Runtime: the same answers, and torch's own where that cannot be had."""

import pytest
import torch
from torch import Tensor, nn

from adaptd.learning import quick
from adaptd.learning.backbones import Encoding, build_classifier
from adaptd.learning.quick import quicken
from adaptd.learning.settings import ModelSettings


class Fickle(nn.Module):
    """Answers by what is in the batch: tracing writes down one of its two branches."""

    def __init__(self) -> None:
        super().__init__()
        self.sees_first = True
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        """Another factor each second time."""
        self.sees_first = not self.sees_first
        return images.flatten(1) * self.weight * (1 if self.sees_first else 2)


class Broken(nn.Module):
    """Cannot be traced."""

    def forward(self, images: Tensor) -> Tensor:
        """Counts on numbers that tracing does not have."""
        if torch.jit.is_tracing():
            raise RuntimeError("not here\nat all")
        return images


@pytest.mark.parametrize(("backbone", "size"), [("lenet", 32), ("mobilenet_v2", 64), ("efficientnet_lite0", 64)])
def test_answers_are_the_same(backbone, size, monkeypatch):
    """Features of batches of any size, at once or in pieces, with the weights as they are at that moment."""
    model = build_classifier(ModelSettings(backbone=backbone, classes=("a", "b"), image_size=size), seed=1).eval()
    images = torch.rand(5, 3, size, size, generator=torch.Generator().manual_seed(2))
    for _ in range(2):
        run = quicken(Encoding(model), images.shape[1:], quick.ENOUGH)
        with torch.no_grad():
            truth = model.encode(images)
            assert not isinstance(run, nn.Module)
            assert torch.allclose(run(images), truth, atol=1e-4 * float(truth.abs().max()))
            assert torch.equal(run(images)[:2], run(images)[:2])
            with monkeypatch.context() as patch:
                patch.setattr(quick, "AT_ONCE", 2 * images[0].numel())
                assert torch.allclose(run(images), truth, atol=1e-4 * float(truth.abs().max()))
            for parameter in model.parameters():
                parameter.add_(0.01 * parameter)


def test_a_few_images_are_not_worth_it():
    """And what is not, is the module itself."""
    model = nn.Flatten()
    assert quicken(model, (3, 8, 8), 10) is model


@pytest.mark.parametrize("module", [Fickle().eval(), Broken().eval()])
def test_what_cannot_be_exported_rightly_runs_as_it_is(module, caplog):
    """An export that fails or answers differently is not used, and that is said."""
    caplog.set_level("INFO")
    assert quicken(module, (3, 8, 8), quick.ENOUGH) is module
    assert "torch runs the model itself" in caplog.text
    assert "\n" not in caplog.messages[-1]
