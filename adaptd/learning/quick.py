"""Passes that only look: a module's function by ONNX Runtime, which takes a third to two thirds of torch's time on a CPU."""

import io
import logging
from collections.abc import Callable, Sequence

import onnxruntime
import torch
from torch import Tensor, nn

from adaptd.silence import silenced

ENOUGH = 10_000_000
"""So many numbers have to go in, over all passes, for exporting to pay: 70 images of 224 pixels, 3,300 of 32."""

AT_ONCE = 600_000
"""So many numbers go in at once: 4 images of 224 pixels, 195 of 32. What a network makes of more leaves the processor's cache:
with 32 images of 224 pixels a pass takes up to twice as long an image, and half a gigabyte."""

RELATIVE = 1e-3
"""Answers that differ by more than this share of the largest one are wrong."""

INPUT, OUTPUT = "input", "output"
BATCH = "N"
"""The name of the dimension that may be of any length."""

log = logging.getLogger(__name__)

Pass = Callable[[Tensor], Tensor]


def quicken(module: nn.Module, shape: Sequence[int], count: int) -> Pass:
    """The same function of a batch, with the weights as they are; the module itself where there is nothing to gain.

    Whether it is the one or the other depends on nothing but the arguments, so that work done again comes out the same.

    Args:
        module: in evaluation mode.
        shape: of one of the inputs in a batch.
        count: how many of them will be asked about.
    """
    somewhere = next((tensor.device.type for tensor in module.parameters()), "cpu")
    if somewhere != "cpu" or count * torch.Size(shape).numel() < ENOUGH:
        return module
    assert not module.training, "the exporter would put all parts of it into training mode afterwards"
    example = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    try:
        with silenced(log), torch.no_grad():
            quick = _run_exported(module, example)
            truth, answer = module(example), quick(example)
    except Exception as problem:  # noqa: BLE001  # exporters raise whatever the module made them stumble over
        log.info("torch runs the model itself, it cannot be exported: %s", str(problem).partition("\n")[0])
        return module
    if not torch.allclose(answer, truth, rtol=0, atol=RELATIVE * float(truth.abs().max())):
        log.info("torch runs the model itself, its export answers differently")
        return module
    return quick


def trace_onnx(module: nn.Module, example: Tensor, given: str, answers: Sequence[str], opset: int | None = None) -> bytes:
    """A module as an ONNX file, by torch's tracing exporter.

    Args:
        module: in evaluation mode.
        example: two inputs or more: one would freeze the batch at one.
        given: the name of the input.
        answers: the names of the outputs.
        opset: ONNX operator set; None: the exporter's own.
    """
    content = io.BytesIO()
    torch.onnx.export(
        module,
        (example,),
        content,  # type: ignore[arg-type]  # this exporter takes an open file, which its signature does not say
        input_names=[given],
        output_names=list(answers),
        dynamic_axes={name: {0: BATCH} for name in (given, *answers)},
        opset_version=opset,
        dynamo=False,
    )
    return content.getvalue()


def _run_exported(module: nn.Module, example: Tensor) -> Pass:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    # Between two passes torch has work for the same processors.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        trace_onnx(module, example, INPUT, [OUTPUT]), options, providers=["CPUExecutionProvider"]
    )

    def run(images: Tensor) -> Tensor:
        pieces = torch.split(images.contiguous(), max(1, AT_ONCE // images.shape[1:].numel()))
        return torch.cat([torch.from_numpy(session.run([OUTPUT], {INPUT: piece.numpy()})[0]) for piece in pieces])

    return run
