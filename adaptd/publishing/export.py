"""From a classifier to one proven ONNX file: pixels in, logits and probabilities out. Where it is published is not known here."""

import copy
import logging
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from adaptd.errors import ExportFailed, ParityFailed
from adaptd.learning.backbones import Classifier
from adaptd.learning.quick import BATCH, trace_onnx
from adaptd.library.imageset import ImageSet
from adaptd.project.settings import ExportSettings
from adaptd.publishing.card import INPUT, OUTPUTS, Facts, Parity
from adaptd.publishing.parity import check_parity
from adaptd.silence import silenced

log = logging.getLogger(__name__)


class Exporter(StrEnum):
    """Torch's two exporters, the one to try first on top.

    Both are right here for lenet5, lenet, resnet18 and mobilenet_v2, and tracing takes an eighth of the time or less: a
    small project's episode would otherwise end with seconds of importing torch._dynamo. Each has been wrong for other
    people's models, or cannot write them (tracing: vit_b_16), hence the parity check and the other one.
    """

    TRACE = "torchscript"
    DYNAMO = "dynamo"


class Deployed(nn.Module):
    """The classifier as clients see it: uint8 pixels in, logits and probabilities out; no projector."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """[n, 3, H, W] in 0 … 255 → twice [n, classes]. Normalisation is the classifier's own."""
        logits = self.model(images.float() / 255)
        return logits, torch.softmax(logits, dim=1)


def export_model(
    model: Classifier, path: Path, opset: int, facts: Facts, exporters: Sequence[Exporter] = tuple(Exporter)
) -> Exporter:
    """Write the ONNX file with the first exporter that can, and tell which; whether it is right, `prove_model` finds out.

    Args:
        model: left as it was.
        path: the file to write; it may be wrong or missing if this raises.
        opset: ONNX operator set.
        facts: put into the file's metadata.
        exporters: which to try, in this order.

    Raises:
        ExportFailed: none could, for the first one's reason.
    """
    failure: ExportFailed | None = None
    for exporter in exporters:
        try:
            export_onnx(model, path, opset, facts, exporter)
        except ExportFailed as error:
            log.warning("exporter %s: %s", exporter, error)
            failure = failure or error
        else:
            return exporter
    assert failure is not None
    raise failure


def prove_model(
    model: Classifier,
    path: Path,
    settings: ExportSettings,
    facts: Facts,
    images: Mapping[str, ImageSet],
    exporter: Exporter,
) -> Parity:
    """Show that the file answers as the model does; where it does not, write and prove it with the next exporter.

    Args:
        model: the truth.
        path: the file that `exporter` wrote.
        settings: opset and tolerance.
        facts: for the file's metadata, if it must be written again.
        images: real ones, of every known domain, by its name.
        exporter: as `export_model` told.

    Raises:
        ParityFailed: the last exporter's file answers differently.
    """
    try:
        return check_parity(model, path, images, settings.parity_tolerance, exporter)
    except ParityFailed as error:
        log.warning("exporter %s: %s", exporter, error)
        left = list(Exporter)[list(Exporter).index(exporter) + 1 :]
        if not left:
            raise
        try:
            other = export_model(model, path, settings.opset, facts, left)
        except ExportFailed:
            # What a wrong answer tells is worth more than why the other exporter gave none.
            raise error from None
    return prove_model(model, path, settings, facts, images, other)


def export_onnx(model: Classifier, path: Path, opset: int, facts: Facts, exporter: Exporter = Exporter.TRACE) -> None:
    """Write the classifier as a single ONNX file with a dynamic batch, unproven.

    Raises:
        ExportFailed: the exporter cannot do it.
    """
    if opset > (newest := onnx.defs.onnx_opset_version()):  # after its work, dynamo would find that out too
        raise ExportFailed(f"there is no opset {opset} in onnx {onnx.__version__}: set [export] opset to {newest} or less")
    size = model.settings.image_size
    # A copy on the CPU in eval mode: the model may be in the middle of something.
    deployed = Deployed(copy.deepcopy(model).cpu().requires_grad_(False)).eval()
    # Two images: an example of one freezes the batch at one.
    example = torch.zeros(2, 3, size, size, dtype=torch.uint8)
    try:
        with silenced(log):
            proto = (_trace if exporter is Exporter.TRACE else _dynamo)(deployed, example, opset)
            assert [item.version for item in proto.opset_import if not item.domain] == [opset]
            describe(proto, facts, exporter)
            onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # exporters raise whatever the model made them stumble over
        reason = str(error).strip().partition("\n")[0]
        raise ExportFailed(
            f"the {exporter} exporter cannot write {model.settings.backbone} at opset {opset}: "
            f"change [export] opset or the backbone ({type(error).__name__}: {reason})"
        ) from error
    path.write_bytes(proto.SerializeToString(deterministic=True))


def _trace(deployed: Deployed, example: Tensor, opset: int) -> onnx.ModelProto:
    return onnx.load_model_from_string(trace_onnx(deployed, example, INPUT, OUTPUTS, opset))


def _dynamo(deployed: Deployed, example: Tensor, opset: int) -> onnx.ModelProto:
    program = torch.onnx.export(
        deployed,
        (example,),
        input_names=[INPUT],
        output_names=list(OUTPUTS),
        dynamic_shapes={INPUT: {0: torch.export.Dim(BATCH)}},
        opset_version=opset,
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    assert program is not None
    return program.model_proto


def describe(proto: onnx.ModelProto, facts: Facts, exporter: str) -> None:
    """Put the facts in, and what the exporter says about our source files and paths out."""
    graph = proto.graph
    for part in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer, graph):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    del proto.metadata_props[:]
    properties: dict[str, Any] = {**facts.to_metadata(), "adaptd.exporter": str(exporter)}
    onnx.helper.set_model_props(proto, properties)
    proto.doc_string = f"{facts.model} version {facts.version}, by adaptd"
