"""The proof that an ONNX file is the model: both answer the same real images. Writing the file is `export`'s business."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx.external_data_helper import uses_external_data
from onnxruntime import InferenceSession

from adaptd.errors import ParityFailed, VersionDamaged
from adaptd.evaluation.evaluator import answering
from adaptd.learning.backbones import Classifier
from adaptd.library.imageset import ImageSet
from adaptd.publishing.card import INPUT, OUTPUTS, Parity
from adaptd.publishing.session import open_session, run_session

TIE = 1e-5
"""Two classes this close in probability: torch itself calls either, depending on batch size and threads."""

BATCH_SIZES = (1, 7, 64)
"""One image, an odd number, then as a busy server has it."""

IMAGES_PER_DOMAIN = 1024

Probabilities = NDArray[np.float32]


def check_parity(
    model: Classifier,
    path: Path,
    images: Mapping[str, ImageSet],
    tolerance: float,
    exporter: str,
    images_per_domain: int = IMAGES_PER_DOMAIN,
) -> Parity:
    """Compare the model with an ONNX file on images of every domain.

    Both outputs are held to it: `probabilities`, and the softmax of `logits`. No probability may be off by more than
    `tolerance`, and every argmax must be equal, with one exception: where torch gives the class that ONNX Runtime
    chose no less than its own best minus `TIE` (or the tolerance, if that is less), neither is wrong; such images are
    counted as ties. Without it, one undecided image in thousands would refuse a right export.

    Args:
        model: its answers are the truth; they are the processor's, as those of the file.
        path: the exported file.
        images: by domain; none may be empty.
        tolerance: for probabilities.
        exporter: who wrote the file, for the record.
        images_per_domain: of larger domains, this many are taken, evenly spread.

    Raises:
        ParityFailed: the file answers differently, or is not a single self-contained file with the right tensors.
    """
    if not images or not all(map(len, images.values())):
        raise ValueError("parity needs images of every domain")
    session, model = _open_alone(path), _on_processor(model)
    samples = {domain: spread(found, images_per_domain) for domain, found in images.items()}
    compared = {domain: _compare(model, session, sample) for domain, sample in samples.items()}
    max_error = max(float(np.abs(answer - truth).max()) for truth, answer in compared.values())
    if not all(np.isfinite(answers).all() for pair in compared.values() for answers in pair):
        raise ParityFailed(f"{path.name} or the model answers with NaN or infinity: train the model again")
    unequal, ties = map(sum, zip(*(_count_unequal(*pair, min(TIE, tolerance)) for pair in compared.values()), strict=True))
    count = sum(map(len, samples.values()))
    if max_error > tolerance or unequal:
        raise ParityFailed(
            f"{path.name} by exporter {exporter} does not answer as the model does: on {count} images its probabilities are off "
            f"by up to {max_error:.2g} (allowed {tolerance:.2g}), and {unequal} images get another class; it was not published"
        )
    return Parity(
        exporter=exporter,
        max_error=max_error,
        equal_argmax=1 - (unequal + ties) / count,
        ties=ties,
        tolerance=tolerance,
        images={domain: len(sample) for domain, sample in samples.items()},
    )


def _on_processor(model: Classifier) -> Classifier:
    """The model, or a copy of one that is elsewhere: other devices round otherwise."""
    return model if model.mean.device.type == "cpu" else copy.deepcopy(model).cpu()


def _open_alone(path: Path) -> InferenceSession:
    """A session on a file that refers to no other file and has our inputs and outputs."""
    proto = onnx.load_model(str(path), load_external_data=False)
    if any(map(uses_external_data, _tensors(proto.graph))):
        raise ParityFailed(f"{path.name} keeps weights in other files: export it with external_data=False")
    del proto
    try:
        session = open_session(path.read_bytes())
    except VersionDamaged as error:
        raise ParityFailed(str(error)) from error
    names = [tensor.name for tensor in (*session.get_inputs(), *session.get_outputs())]
    if names != [INPUT, *OUTPUTS] or isinstance(session.get_inputs()[0].shape[0], int):
        raise ParityFailed(f"{path.name} has tensors {', '.join(names)} or a fixed batch; it must take {INPUT} of any number")
    return session


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for inner in (attribute.g, *attribute.graphs):
            yield from _tensors(inner)


def spread(images: ImageSet, most: int) -> ImageSet:
    """At most so many of the images, evenly spread, without labels."""
    if len(images) <= most:
        return images
    rows = np.linspace(0, len(images) - 1, most).astype(np.int64)
    return ImageSet(images.ids[rows], images.pixels[rows])


def _compare(model: Classifier, session: InferenceSession, images: ImageSet) -> tuple[Probabilities, Probabilities]:
    """What torch says, [n, 2, classes], and what ONNX Runtime says in its two outputs."""
    with answering(model, images.pixels.shape[1:], len(images), BATCH_SIZES[-1], exact=True) as answer:
        truth = _softmax(answer(images))
    answers = [run_session(session, images.pixels[start:end]) for start, end in batches(len(images))]
    logits, probabilities = (np.concatenate(parts) for parts in zip(*answers, strict=True))
    return np.stack([truth, truth], axis=1), np.stack([_softmax(logits), probabilities], axis=1)


def batches(count: int) -> Iterator[tuple[int, int]]:
    """First and last rows of batches in the sizes above, the last size to the end."""
    start, number = 0, 0
    while start < count:
        end = min(count, start + BATCH_SIZES[min(number, len(BATCH_SIZES) - 1)])
        yield start, end
        start, number = end, number + 1


def _count_unequal(truth: Probabilities, answers: Probabilities, tie: float) -> tuple[int, int]:
    """Images with another class, and images that are ties. One of the two outputs is enough."""
    chosen = answers.argmax(axis=2, keepdims=True)
    behind = truth.max(axis=2) - np.take_along_axis(truth, chosen, axis=2)[:, :, 0]
    other = chosen[:, :, 0] != truth.argmax(axis=2)
    wrong = (behind > tie).any(axis=1)
    return int(wrong.sum()), int((other.any(axis=1) & ~wrong).sum())


def _softmax(logits: NDArray[np.float32]) -> Probabilities:
    answers: Probabilities = torch.softmax(torch.from_numpy(logits), dim=1).numpy()
    return answers
