"""A model's view of whole image sets, without augmentation and without leaving a trace in the model.

Whatever the model runs on, the view is gathered on the processor; what is long for each image, on the disk.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from adaptd.learning.augment import to_float
from adaptd.learning.backbones import Classifier, Encoding
from adaptd.learning.batches import EpisodeData
from adaptd.learning.quick import Pass, quicken
from adaptd.learning.scratch import Rows, find_folder
from adaptd.learning.views import ViewedSet
from adaptd.library.imageset import ImageSet

IMAGES_PER_PASS = 128

LABELLED, LABELLED_PER_CLASS = 1000, 100
"""Of a labelled set so many images at least, and so many for each class, say what its loss and its centroids are."""


@contextmanager
def training_mode(model: nn.Module, *, on: bool) -> Iterator[None]:
    """Put every module into training or evaluation mode, and afterwards back into its own."""
    before = [(module, module.training) for module in model.modules()]
    model.train(on)
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode


@dataclass(frozen=True, slots=True)
class Survey:
    """What the model makes of each image of a set.

    Args:
        encode: the encoder's pass that it was made with, for as long as the weights stay.
        logits: [n, classes].
        keys: [n, d] unit projections, for the bank; None where they were not asked for.
        features: [n, features]; kept only for unlabelled sets, which are clustered. Like the keys a memory map where images are.
        centroids: [classes, features] unit class means; only for labelled sets.
        cross_entropy: the mean over the set; only for labelled sets.
    """

    encode: Pass
    logits: Tensor
    keys: Tensor | None
    features: Tensor | None
    centroids: Tensor | None
    cross_entropy: float | None


@dataclass(frozen=True, slots=True)
class Surveys:
    """Surveys of everything an episode learns from."""

    source: Survey
    memories: tuple[Survey, ...]
    target: Survey | None

    def keys(self) -> Tensor:
        """The rows of a new bank."""
        every = [survey.keys for survey in (self.source, *self.memories, self.target) if survey is not None]
        found = [keys for keys in every if keys is not None]
        assert len(found) == len(every), "they were not asked for"
        return torch.cat(found)


def survey_all(model: Classifier, data: EpisodeData, *, keys: bool = False) -> Surveys:
    """One forward pass over the target, and over enough of source and memories; over all of these too if keys are wanted."""
    chosen = choose_rows(model, data, keys=keys)
    with training_mode(model, on=False):
        encode = quicken(Encoding(model), _shape(data.source), sum(map(len, chosen)))
    source, *others = (
        survey(model, images, rows, encode=encode, keys=keys) for images, rows in zip(data.every, chosen, strict=True)
    )
    target = None if data.target is None else others.pop()
    return Surveys(source, tuple(others), target)


def choose_rows(model: Classifier, data: EpisodeData, *, keys: bool) -> list[NDArray[np.int64]]:
    """What a survey of everything looks at: without keys only some images of a labelled set, at even distances."""
    enough = max(LABELLED, LABELLED_PER_CLASS * len(model.settings.classes))
    most = [len(images) if keys or images.labels is None else min(enough, len(images)) for images in data.every]
    return [
        np.linspace(0, len(images) - 1, count).round().astype(np.int64) for images, count in zip(data.every, most, strict=True)
    ]


def mean_probabilities(
    model: Classifier, images: ImageSet, first: Survey, change: Callable[[Tensor], Tensor], views: int
) -> Tensor:
    """Class probabilities of each image, [n, classes]: the mean of those in a survey and of those for some changed views.

    Views that were made beforehand are taken, where there are any.
    """
    total = functional.softmax(first.logits.double(), dim=1)
    views = min(views, images.changed) if isinstance(images, ViewedSet) else views
    with torch.no_grad(), training_mode(model, on=False):
        for view in range(1, 1 + views):
            for rows in _pieces(np.arange(len(images))):
                changed = (
                    _read(model, images, rows, view) if isinstance(images, ViewedSet) else change(_read(model, images, rows))
                )
                logits = model.classify(first.encode(changed)).cpu().to(total.dtype)
                total[rows[0] : rows[-1] + 1] += functional.softmax(logits, dim=1)
    return total.div_(1 + views)


def survey(
    model: Classifier,
    images: ImageSet,
    rows: NDArray[np.int64] | None = None,
    *,
    encode: Pass | None = None,
    keys: bool = False,
) -> Survey:
    """One forward pass over a set, or over some of its rows, in evaluation mode.

    Args:
        model: the classifier.
        images: the set.
        rows: of it; None: all.
        encode: a pass of the same weights from another survey; None: it is made.
        keys: whether the bank's keys are wanted.
    """
    classes = len(model.settings.classes)
    rows = np.arange(len(images)) if rows is None else rows
    labels = None if images.labels is None else torch.from_numpy(images.labels[rows]).to(model.mean.device)
    folder, sums = find_folder(images), model.mean.new_zeros(())
    logits = torch.empty(len(rows), classes)
    projected, features = Rows(folder, model.settings.projector_output), Rows(folder, model.classifier.in_features)
    with torch.no_grad(), training_mode(model, on=False):
        encode = encode or quicken(Encoding(model), _shape(images), len(rows))
        for number, piece in enumerate(_pieces(rows)):
            place = slice(number * IMAGES_PER_PASS, number * IMAGES_PER_PASS + len(piece))
            encoded = encode(_read(model, images, piece))
            logits[place] = model.classify(encoded).cpu()
            if keys:
                projected.add(model.embed(encoded).cpu())
            if labels is None:
                features.add(encoded.cpu())
            else:  # sums, not features: nobody clusters what has labels
                members = functional.one_hot(labels[place], classes).float()
                sums = sums + members.T @ functional.normalize(encoded, dim=1)
    sums, found = sums.cpu(), projected.read() if keys else None
    if labels is None:
        return Survey(encode, logits, found, features.read(), None, None)
    entropy = functional.cross_entropy(logits.double(), labels.cpu()).item() if len(rows) else None
    return Survey(encode, logits, found, None, functional.normalize(sums, dim=1) if len(rows) else None, entropy)


def _shape(images: ImageSet) -> tuple[int, ...]:
    """Of one image, or of its activations, as the model takes it."""
    if isinstance(images, ViewedSet):
        *sides, channels = images.views[0].shape[1:]
        return (channels, *sides)
    return images.pixels.shape[1:]


def _pieces(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    return (rows[start : start + IMAGES_PER_PASS] for start in range(0, len(rows), IMAGES_PER_PASS))


def _read(model: Classifier, images: ImageSet, rows: NDArray[np.int64], view: int = 0) -> Tensor:
    """Some images as the model takes them, where the model is."""
    model.seen(len(rows))
    if isinstance(images, ViewedSet):
        return images.read(rows, view).to(model.mean.device)
    return to_float(torch.from_numpy(np.asarray(images.pixels[rows])).to(model.mean.device))
