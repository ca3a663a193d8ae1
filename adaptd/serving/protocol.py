"""Open Inference Protocol, the tensors: an `infer` request's bytes → images, answers → a response's bytes.

JSON tensors, the binary tensor extension, and the classification extension. Knows no HTTP beyond one header's value;
what each message about a wrong request says is decided here.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaptd.errors import RequestRefused
from adaptd.publishing.card import INPUT, OUTPUTS
from adaptd.serving.long_lists import MARK, cut_numbers, parse_numbers
from adaptd.serving.session import Images, Model, Outputs

MAX_ID = 1024
LARGE = 1 << 18
"""JSON of more bytes than this is read piece by piece."""
MAX_BESIDE = 1 << 20
"""Bytes of JSON beside a tensor's data."""


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """An output a client asked for: as it is, or the best `classification` classes of each row."""

    name: str
    binary: bool
    classification: int = 0


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A client's question, checked."""

    id: str | None
    images: Images
    outputs: tuple[WantedOutput, ...]


def parse_infer(body: bytes, header_length: bytes | None, model: Model, max_batch_size: int) -> InferRequest:
    """Read a request for this model; RequestRefused where it does not fit."""
    header, tensors = split_body(body, header_length)
    header, numbers = cut_numbers(header) if is_large(header) else (header, None)
    if len(header) > MAX_BESIDE:
        raise RequestRefused(413, f"the request's JSON is larger than {MAX_BESIDE} bytes beside one list of integers as data")
    document = _parse_json(header)
    try:
        (tensor,) = document["inputs"]
        if numbers is not None and tensor["data"] == MARK:
            tensor["data"] = numbers
        images = read_images(tensor, tensors, model, max_batch_size)
        outputs = read_outputs(document)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise RequestRefused(400, f"the request must have exactly one input, {INPUT}, as the protocol describes it") from problem
    identity = document.get("id")
    if identity is not None and not (isinstance(identity, str) and len(identity) <= MAX_ID):
        raise RequestRefused(400, f"id must be a string of at most {MAX_ID} characters")
    return InferRequest(identity, images, outputs)


def is_large(header: bytes) -> bool:
    """Whether reading it takes so long that others must not wait for it."""
    return len(header) > LARGE


def split_body(body: bytes, header_length: bytes | None) -> tuple[bytes, memoryview]:
    """The JSON part and the raw tensors behind it."""
    if header_length is None:
        return body, memoryview(b"")
    if not header_length.isdigit() or len(header_length) > 12 or int(header_length) > len(body):
        raise RequestRefused(400, f"Inference-Header-Content-Length must be a number up to the body's length, {len(body)}")
    length = int(header_length)
    return body[:length], memoryview(body)[length:]


def _parse_json(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise RequestRefused(400, f"failed to parse the request's JSON: {problem}") from problem
    if not isinstance(document, dict):
        raise RequestRefused(400, "the request's JSON must be an object")
    return document


def read_images(tensor: dict[str, Any], tensors: memoryview, model: Model, max_batch_size: int) -> Images:
    """The input of a request, as the protocol's JSON describes it; `tensors` are the bytes that came beside."""
    if tensor["name"] != INPUT:
        raise RequestRefused(400, f"unexpected inference input {tensor['name']!r}: the model's input is {INPUT}")
    if tensor["datatype"] != "UINT8":
        raise RequestRefused(400, f"inference input {INPUT} has datatype {tensor['datatype']!r}, the model takes UINT8")
    shape = tensor["shape"]
    if not (isinstance(shape, list) and all(type(side) is int for side in shape) and tuple(shape[1:]) == model.image_shape):
        raise RequestRefused(400, f"unexpected shape for input {INPUT}: expected [-1,{_sides(model)}], got {str(shape)[:100]}")
    if not 1 <= shape[0] <= max_batch_size:
        raise RequestRefused(400, f"a request's batch must be of 1 to {max_batch_size} images, not {str(shape[0])[:20]}")
    size = (tensor.get("parameters") or {}).get("binary_data_size")
    if size is None:
        return _from_json(tensor.get("data"), shape)
    if type(size) is not int or size != shape[0] * model.image_bytes or size != len(tensors):
        raise RequestRefused(
            400,
            f"input {INPUT} of shape {shape} is {shape[0] * model.image_bytes} bytes; "
            f"binary_data_size says {str(size)[:20]}, the body has {len(tensors)}",
        )
    return np.frombuffer(tensors, np.uint8).reshape(shape)


def _sides(model: Model) -> str:
    return ",".join(map(str, model.image_shape))


def _from_json(data: Any, shape: list[int]) -> Images:
    if not isinstance(data, list | bytes):
        raise RequestRefused(400, f"input {INPUT} has neither data nor binary_data_size")
    try:
        values = parse_numbers(data, shape) if isinstance(data, bytes) else np.asarray(data)
    except ValueError:
        values = np.empty(0)  # ragged
    if values.dtype.kind not in "iu" or values.size != np.prod(shape) or values.min() < 0 or values.max() > 255:
        raise RequestRefused(
            400, f"data of input {INPUT} must be {np.prod(shape)} integers from 0 to 255, flat or nested as {shape}"
        )
    return values.astype(np.uint8).reshape(shape)


def read_outputs(document: dict[str, Any]) -> tuple[WantedOutput, ...]:
    """What a request wants to hear; everything, where it does not say."""
    binary = bool((document.get("parameters") or {}).get("binary_data_output", False))
    outputs = document.get("outputs")
    if not outputs:
        return tuple(WantedOutput(name, binary) for name in OUTPUTS)
    wanted = []
    for output in outputs:
        if output["name"] not in OUTPUTS:
            raise RequestRefused(400, f"unexpected inference output {output['name']!r}: the model has {' and '.join(OUTPUTS)}")
        parameters = output.get("parameters") or {}
        best = parameters.get("classification", 0)
        if type(best) is not int or best < 0:
            raise RequestRefused(400, "classification must be a number of classes")
        wanted.append(WantedOutput(output["name"], bool(parameters.get("binary_data", binary)), best))
    if len({output.name for output in wanted}) < len(wanted):
        raise RequestRefused(400, "an output is asked for twice")
    return tuple(wanted)


def describe_outputs(
    model: Model, request: InferRequest, outputs: Outputs
) -> tuple[tuple[dict[str, Any], ...], tuple[bytes | None, ...]]:
    """Each output that was asked for, in the protocol's words; and its bytes, where it is not among them."""
    found = []
    for wanted in request.outputs:
        values = outputs[OUTPUTS.index(wanted.name)]
        found.append(_classify(wanted, values, model) if wanted.classification else _plain(wanted, values))
    described, data = zip(*found, strict=True)
    return described, data


def render_infer(model: Model, request: InferRequest, outputs: Outputs) -> tuple[bytes, int | None]:
    """The response's body, and the length of its JSON part where binary tensors follow."""
    described, data = describe_outputs(model, request, outputs)
    tail = [each for each in data if each is not None]
    document: dict[str, Any] = {"model_name": model.name, "model_version": str(model.version)}
    if request.id is not None:
        document["id"] = request.id
    document["outputs"] = described
    header = json.dumps(document, separators=(",", ":")).encode()
    return (b"".join((header, *tail)), len(header)) if tail else (header, None)


def _plain(wanted: WantedOutput, values: NDArray[np.float32]) -> tuple[dict[str, Any], bytes | None]:
    description: dict[str, Any] = {"name": wanted.name, "datatype": "FP32", "shape": list(values.shape)}
    if not wanted.binary:
        return description | {"data": values.ravel().tolist()}, None
    return description | {"parameters": {"binary_data_size": values.nbytes}}, values.astype("<f4", copy=False).tobytes()


def _classify(wanted: WantedOutput, values: NDArray[np.float32], model: Model) -> tuple[dict[str, Any], bytes | None]:
    """`value:index:label` of the best classes, as the classification extension writes them."""
    best = np.argsort(-values, axis=1, kind="stable")[:, : wanted.classification]
    texts = [f"{row[index]:f}:{index}:{model.classes[index]}" for row, order in zip(values, best, strict=True) for index in order]
    description: dict[str, Any] = {"name": wanted.name, "datatype": "BYTES", "shape": list(best.shape)}
    if not wanted.binary:
        return description | {"data": texts}, None
    data = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)
    return description | {"parameters": {"binary_data_size": len(data)}}, data
