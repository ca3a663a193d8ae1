"""Running a model over images. Only this module and `predictions`, with what stands on it, need torch in this room."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adaptd.evaluation.shift import View
from adaptd.learning.quick import Pass, quicken
from adaptd.library.imageset import ImageSet
from adaptd.pace import Seen, ignore

PIXELS_PER_PASS = 2_000_000
"""512 images of 62 pixels squared: more take gigabytes of activations, and no pass is faster for it."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Right answers on labelled images."""

    correct: int
    n: int

    @property
    def accuracy(self) -> float:
        """Divided by the images that were asked about, nothing else."""
        return self.correct / self.n


Answer = Callable[[ImageSet], NDArray[np.float32]]
"""Logits, float32 [n, classes], row for row of an image set."""


def predict(model: nn.Module, images: ImageSet, batch_size: int, seen: Seen = ignore) -> NDArray[np.float32]:
    """Logits, float32 [n, classes], row for row of `images`; arguments as of `answering`."""
    with answering(model, images.pixels.shape[1:], len(images), batch_size, seen) as answer:
        return answer(images)


@contextmanager
def answering(
    model: nn.Module, shape: Sequence[int], count: int, batch_size: int, seen: Seen = ignore, *, exact: bool = False
) -> Iterator[Answer]:
    """Ask a model about image sets, one after the other.

    Args:
        model: maps float images in 0 … 1, [B, 3, H, W], to logits. It answers in eval mode, on its own device, and
            every part of it is put back into the mode it came in.
        shape: of an image.
        count: how many will be asked about, about.
        batch_size: of the forward passes; fewer where images are large.
        seen: told of each of them.
        exact: by torch alone, though ONNX Runtime were faster.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        run = model if exact else quicken(model, shape, count)
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        most = min(batch_size, max(1, PIXELS_PER_PASS // (shape[1] * shape[2])))
        yield lambda images: _answer(run, images, most, device, seen)
    finally:
        # Not model.train(): parts may have been frozen in eval mode on purpose.
        for module, training in modes:
            module.training = training


def _answer(run: Pass, images: ImageSet, count: int, device: torch.device, seen: Seen) -> NDArray[np.float32]:
    """Read in batches, so that a memory map never has to be in memory as a whole."""
    if len(images) == 0:
        raise ValueError("there are no images to predict")
    answers = []
    with torch.inference_mode():
        for start in range(0, len(images), count):
            answers.append(_forward(run, images.pixels[start : start + count], device))
            seen(len(answers[-1]))
    return np.concatenate(answers)


class Encoded(Protocol):
    """A model with an encoder."""

    def encode(self, images: Tensor) -> Tensor:
        """Features, [n, d]."""


class Viewed(Encoded, Protocol):
    """A model whose classes come from its features."""

    def classify(self, features: Tensor) -> Tensor:
        """Logits, [n, classes]."""


class _Viewer(nn.Module):
    def __init__(self, model: Viewed) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        features = self.model.encode(images)
        return torch.cat([self.model.classify(features), features], dim=1)


@contextmanager
def viewing(
    model: Viewed, classes: int, shape: Sequence[int], count: int, batch_size: int
) -> Iterator[Callable[[ImageSet], View]]:
    """Ask a model for features and the logits of so many classes, row for row of an image set, from one pass.

    Arguments as of `answering`.
    """
    with answering(_Viewer(model), shape, count, batch_size) as answer:

        def view(images: ImageSet) -> View:
            both = answer(images)
            return View(features=both[:, classes:], logits=both[:, :classes])

        yield view


def view(model: Viewed, images: ImageSet, classes: int, batch_size: int) -> View:
    """The same of one set alone."""
    with viewing(model, classes, images.pixels.shape[1:], len(images), batch_size) as look:
        return look(images)


def measure(model: nn.Module, images: ImageSet, batch_size: int, seen: Seen = ignore) -> Measurement:
    """How many of the labelled images the model gets right."""
    if images.labels is None:
        raise ValueError("an accuracy can only be measured on labelled images")
    predicted = predict(model, images, batch_size, seen).argmax(axis=1)
    return Measurement(correct=int((predicted == images.labels).sum()), n=len(images))


def _forward(run: Pass, pixels: NDArray[np.uint8], device: torch.device) -> NDArray[np.float32]:
    # A copy: torch wants memory it could write to, and a cache is mapped read-only.
    batch = torch.from_numpy(np.array(pixels)).to(device).float() / 255
    logits: NDArray[np.float32] = run(batch).float().cpu().numpy()
    return logits
