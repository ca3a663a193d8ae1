"""A second, smaller model: static int8, calibrated with real images, judged by its own accuracy. The float file is `export`'s."""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from adaptd.errors import ExportFailed
from adaptd.library.imageset import ImageSet
from adaptd.publishing.card import INPUT, Facts, GateOutcome, Parity, Quantization
from adaptd.publishing.export import describe
from adaptd.publishing.parity import batches, spread
from adaptd.publishing.session import open_session, run_session
from adaptd.records import SOURCE
from adaptd.silence import silenced
from adaptd.text import tell_points

log = logging.getLogger(__name__)

EXPORTER = "int8"
CALIBRATION_IMAGES = 512

Probabilities = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Quantized:
    """An int8 file's figures for its card. It may be published only if `gate` passed."""

    gate: GateOutcome
    parity: Parity
    quantization: Quantization


def quantize(
    path: Path, output: Path, calibration: Sequence[ImageSet], test: ImageSet, facts: Facts, max_loss: float
) -> Quantized:
    """Write an int8 version of a proven ONNX file and compare the two.

    Weights are int8 by channel, activations uint8, which is what processors without VNNI can still multiply fast.
    Scaling and normalisation stay in float.

    Args:
        path: the float file.
        output: where the int8 file goes.
        calibration: images of the source and of memories, to find the ranges of activations; a few hundred are taken.
        test: the source's test set.
        facts: as for the float file, but under `quantized_name`.
        max_loss: accuracy on `test` that int8 may cost.

    Raises:
        ExportFailed: ONNX Runtime cannot quantise this model.
    """
    if test.labels is None or not len(test):
        raise ValueError("an int8 model is judged on a labelled test set")
    share = -(-CALIBRATION_IMAGES // len(calibration))
    samples = [spread(images, share) for images in calibration]
    _write(path, output, samples, facts)
    float_probabilities, probabilities = (_probabilities(file, test) for file in (path, output))
    before, after = float_probabilities.argmax(axis=1), probabilities.argmax(axis=1)
    figures = Quantization(
        accuracy=float((after == test.labels).mean()),
        float_accuracy=float((before == test.labels).mean()),
        agreement=float((before == after).mean()),
        n=len(test),
        calibration_images=sum(map(len, samples)),
    )
    error = float(np.abs(probabilities - float_probabilities).max())
    images = {SOURCE: len(test)}
    parity = Parity(exporter=EXPORTER, max_error=error, equal_argmax=figures.agreement, ties=0, tolerance=None, images=images)
    return Quantized(_judge(figures, max_loss), parity, figures)


def _judge(figures: Quantization, max_loss: float) -> GateOutcome:
    loss = figures.float_accuracy - figures.accuracy
    reason = (
        f"On the source, measured accuracy is {figures.accuracy:.1%} in int8 and {figures.float_accuracy:.1%} in float "
        f"on {figures.n:,} images: a loss of {tell_points(loss)}, allowed: {tell_points(max_loss)}."
    )
    return GateOutcome(passed=loss <= max_loss, reasons=(reason,), figures=figures.model_dump())


class _Calibration(CalibrationDataReader):  # type: ignore[misc]  # ONNX Runtime has no types
    """Hands the images over in batches."""

    def __init__(self, samples: Sequence[ImageSet]) -> None:
        self._batches = self._each(samples)

    def get_next(self) -> dict[str, Any] | None:
        """One batch; None at the end."""
        return next(self._batches, None)

    @staticmethod
    def _each(samples: Sequence[ImageSet]) -> Iterator[dict[str, Any]]:
        for images in samples:
            for start, end in batches(len(images)):
                yield {INPUT: np.ascontiguousarray(images.pixels[start:end])}


def _write(path: Path, output: Path, samples: Sequence[ImageSet], facts: Facts) -> None:
    try:
        with silenced(log), tempfile.TemporaryDirectory() as folder:
            prepared = Path(folder, "prepared.onnx")
            # Symbolic shape inference is for transformers; convolutions have all they need from onnx's own.
            quant_pre_process(path, prepared, skip_symbolic_shape=True)
            quantize_static(
                prepared,
                Path(folder, "int8.onnx"),
                _Calibration(samples),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
            proto = onnx.load(Path(folder, "int8.onnx"))
            describe(proto, facts, EXPORTER)
            onnx.checker.check_model(proto)
    except OSError:  # the machine's trouble, not the model's
        raise
    except Exception as error:  # it raises whatever the model made it stumble over
        raise ExportFailed(f"ONNX Runtime cannot quantise {path}: set [export] quantize = false ({error})") from error
    output.write_bytes(proto.SerializeToString(deterministic=True))


def _probabilities(path: Path, images: ImageSet) -> Probabilities:
    session = open_session(path)
    return np.concatenate([run_session(session, images.pixels[start:end])[1] for start, end in batches(len(images))])
