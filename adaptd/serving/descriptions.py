"""Open Inference Protocol, the rest: what the server, its model and its repository say about themselves, as JSON."""

from typing import Any

from adaptd import __version__
from adaptd.publishing.card import INPUT, OUTPUTS
from adaptd.serving.catalogue import Catalogue
from adaptd.serving.session import Model

PLATFORM = "onnxruntime_onnx"
EXTENSIONS = ("binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics")


def describe_server() -> dict[str, Any]:
    """`GET /v2`."""
    return {"name": "adaptd", "version": __version__, "extensions": EXTENSIONS}


def describe_model(model: Model, catalogue: Catalogue) -> dict[str, Any]:
    """`GET /v2/models/{m}`."""
    usable = {*catalogue.versions, model.version} - catalogue.refusals.keys()
    return {
        "name": model.name,
        "versions": [str(version) for version in sorted(usable)],
        "platform": PLATFORM,
        "inputs": [{"name": INPUT, "datatype": "UINT8", "shape": [-1, *model.image_shape]}],
        "outputs": [{"name": name, "datatype": "FP32", "shape": [-1, len(model.classes)]} for name in OUTPUTS],
    }


def describe_config(model: Model, max_batch_size: int) -> dict[str, Any]:
    """`GET /v2/models/{m}/config`: Triton's model configuration, as the session itself knows it."""
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "onnxruntime",
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": max_batch_size,
        "input": [{"name": INPUT, "data_type": "TYPE_UINT8", "dims": list(model.image_shape)}],
        "output": [{"name": name, "data_type": "TYPE_FP32", "dims": [len(model.classes)]} for name in OUTPUTS],
        "dynamic_batching": {},
    }


def describe_index(catalogue: Catalogue, only_ready: bool) -> list[dict[str, str]]:  # noqa: FBT001 (it is the protocol's flag)
    """`POST /v2/repository/index`: every version in the folder, and why not where it cannot be used."""
    rows = []
    for version in catalogue.versions:
        refusal = catalogue.refusals.get(version)
        state, reason = ("UNAVAILABLE", refusal[1]) if refusal else ("READY", "")
        if not (only_ready and refusal):
            rows.append({"name": catalogue.name, "version": str(version), "state": state, "reason": reason})
    return rows
