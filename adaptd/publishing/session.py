"""ONNX Runtime sessions as adaptd opens them, for the parity check, quantisation and serving alike. No torch here."""

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from adaptd.errors import ConfigError, VersionDamaged
from adaptd.machine import cpu_count
from adaptd.publishing.card import INPUT, OUTPUTS

FATAL_ONLY = 4
"""What goes wrong is raised, and told by whoever catches it."""


CPU = "CPUExecutionProvider"
PROVIDERS = {"cuda": "CUDAExecutionProvider", "mps": "CoreMLExecutionProvider", "cpu": CPU}
"""Kind of device → who runs models there; in the order in which `auto` prefers them."""

Provider = str | tuple[str, dict[str, str]]


def list_devices() -> list[str]:
    """The kinds of devices that this ONNX Runtime was built for, the preferred one first."""
    available = onnxruntime.get_available_providers()
    return [kind for kind, provider in PROVIDERS.items() if provider in available]


def find_providers(device: str) -> list[Provider]:
    """Who runs a model on a device: its own provider, and the CPU's for what that cannot do.

    Raises:
        ConfigError: ONNX Runtime was not built for the device.
    """
    known = list_devices()
    kind, _, number = (known[0] if device == "auto" else device).partition(":")
    if kind not in known:
        raise ConfigError(
            f"serving.device is {device}, but this ONNX Runtime runs on {', '.join(known)} alone: "
            "install onnxruntime-gpu instead of onnxruntime for cuda, or set serving.device to auto"
        )
    if kind == "cpu":
        return [CPU]
    return [(PROVIDERS[kind], {"device_id": number or "0"} if kind == "cuda" else {}), CPU]


def open_session(model: Path | bytes, threads: int = 0, device: str = "cpu") -> onnxruntime.InferenceSession:
    """A session on a device.

    Args:
        model: a file, or its bytes, which a caller has hashed before.
        threads: 0: what affinity and quota allow. ONNX Runtime itself looks at physical cores only.
        device: as serving.device names it.

    Raises:
        ConfigError: the device cannot be had.
        VersionDamaged: it is no model that ONNX Runtime can load.
    """
    providers = find_providers(device)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or cpu_count()
    options.inter_op_num_threads = 1
    # Spinning threads take the processor from training, and from everyone else on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The runtime would look for tensors in other files beside the working directory; in here it finds none.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", "/dev/null")
    options.log_severity_level = FATAL_ONLY
    content = model if isinstance(model, bytes) else str(model)
    try:
        session = onnxruntime.InferenceSession(content, options, providers=providers)
    except Exception as error:  # its exceptions have no base class of their own
        name = "the model" if isinstance(model, bytes) else str(model)
        raise VersionDamaged(f"ONNX Runtime cannot load {name}: export it again ({error})") from error
    # Where a library of the device is missing, the runtime goes over to the CPU without a word.
    wanted = PROVIDERS.get(device.partition(":")[0], CPU)
    if wanted not in session.get_providers():
        raise ConfigError(
            f"serving.device is {device}, but {wanted} did not start: its CUDA and cuDNN libraries are missing or do not fit"
        )
    return session


def run_session(
    session: onnxruntime.InferenceSession, pixels: NDArray[np.uint8]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Logits and probabilities of uint8 images [n, 3, H, W]."""
    logits, probabilities = session.run(list(OUTPUTS), {INPUT: np.ascontiguousarray(pixels)})
    return logits, probabilities
