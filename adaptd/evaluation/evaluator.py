"""Running a model over images. Only this module and `predictions`, with what stands on it, need torch in this room."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adaptd.evaluation.shift import View
from adaptd.learning.augment import to_float
from adaptd.learning.backbones import Classifier
from adaptd.learning.below import NOWHERE, Below
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
    model: nn.Module,
    shape: Sequence[int],
    count: int,
    batch_size: int,
    seen: Seen = ignore,
    *,
    exact: bool = False,
    below: Below | None = None,
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
        below: activations that need not be made again.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        asked = _Asked(_Runner(model, shape, count, exact=exact))
        upper = None if below is None else _cut(model, below)
        if below is not None and upper is not None:
            asked = _Asked(asked.whole, _Runner(upper.eval(), below.shape, count), below)
        most = min(batch_size, max(1, PIXELS_PER_PASS // (shape[1] * shape[2])))
        yield lambda images: asked.answer(images, most, seen)
    finally:
        # Not model.train(): parts may have been frozen in eval mode on purpose.
        for module, training in modes:
            module.training = training


class _Runner:
    """A model on its device, by torch or by ONNX Runtime; exported when it is first asked."""

    def __init__(self, model: nn.Module, shape: Sequence[int], count: int, *, exact: bool = False) -> None:
        self._device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        self._make: Callable[[], Pass] = (lambda: model) if exact else partial(quicken, model, shape, count)

    @cached_property
    def _run(self) -> Pass:
        return self._make()

    def __call__(self, given: Tensor) -> NDArray[np.float32]:
        moved = given.to(self._device)
        answers: NDArray[np.float32] = self._run(to_float(moved) if moved.dtype is torch.uint8 else moved).float().cpu().numpy()
        return answers


@dataclass(frozen=True, slots=True)
class _Asked:
    """A model; and what of it is above activations, where these are there for some images."""

    whole: _Runner
    upper: _Runner | None = None
    below: Below | None = None

    def answer(self, images: ImageSet, count: int, seen: Seen) -> NDArray[np.float32]:
        """Read in batches, so that a memory map never has to be in memory as a whole."""
        if len(images) == 0:
            raise ValueError("there are no images to predict")
        places = np.full(len(images), NOWHERE) if self.below is None else self.below.find(images)
        batches = [
            rows[start : start + count]
            for rows in (np.flatnonzero(places == NOWHERE), np.flatnonzero(places != NOWHERE))
            for start in range(0, len(rows), count)
        ]
        answers = []
        with torch.inference_mode():
            for rows in batches:
                answers.append(self._run(images, rows, places[rows]))
                seen(len(rows))
        return np.concatenate(answers)[np.argsort(np.concatenate(batches))]

    def _run(self, images: ImageSet, rows: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.float32]:
        if self.upper is not None and self.below is not None and places[0] != NOWHERE:
            return self.upper(self.below.read(places))
        # A copy: torch wants memory it could write to, and a cache is mapped read-only.
        return self.whole(torch.from_numpy(np.array(images.pixels[rows])))


def _cut(model: nn.Module, below: Below) -> nn.Module | None:
    """What of a model is above; None where that is not known of it, or where it has other weights below."""
    if isinstance(model, _Viewer):
        upper = below.cut(model.model) if isinstance(model.model, Classifier) else None
        return None if upper is None else _Viewer(upper)
    return below.cut(model) if isinstance(model, Classifier) else None


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
    model: Viewed, classes: int, shape: Sequence[int], count: int, batch_size: int, below: Below | None = None
) -> Iterator[Callable[[ImageSet], View]]:
    """Ask a model for features and the logits of so many classes, row for row of an image set, from one pass.

    Arguments as of `answering`.
    """
    with answering(_Viewer(model), shape, count, batch_size, below=below) as answer:

        def view(images: ImageSet) -> View:
            both = answer(images)
            return View(features=both[:, classes:], logits=both[:, :classes])

        yield view


def view(model: Viewed, images: ImageSet, classes: int, batch_size: int, below: Below | None = None) -> View:
    """The same of one set alone."""
    with viewing(model, classes, images.pixels.shape[1:], len(images), batch_size, below) as look:
        return look(images)


def measure(model: nn.Module, images: ImageSet, batch_size: int, seen: Seen = ignore) -> Measurement:
    """How many of the labelled images the model gets right."""
    if images.labels is None:
        raise ValueError("an accuracy can only be measured on labelled images")
    predicted = predict(model, images, batch_size, seen).argmax(axis=1)
    return Measurement(correct=int((predicted == images.labels).sum()), n=len(images))
