"""ONNX Runtime sessions as adaptd opens them, for the parity check, quantisation and serving alike. No torch here."""

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from adaptd.errors import VersionDamaged
from adaptd.machine import cpu_count
from adaptd.publishing.card import INPUT, OUTPUTS

FATAL_ONLY = 4
"""What goes wrong is raised, and told by whoever catches it."""


def open_session(model: Path | bytes, threads: int = 0) -> onnxruntime.InferenceSession:
    """A session on the CPU.

    Args:
        model: a file, or its bytes, which a caller has hashed before.
        threads: 0: what affinity and quota allow. ONNX Runtime itself looks at physical cores only.

    Raises:
        VersionDamaged: it is no model that ONNX Runtime can load.
    """
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
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base class of their own
        name = "the model" if isinstance(model, bytes) else str(model)
        raise VersionDamaged(f"ONNX Runtime cannot load {name}: export it again ({error})") from error


def run_session(
    session: onnxruntime.InferenceSession, pixels: NDArray[np.uint8]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Logits and probabilities of uint8 images [n, 3, H, W]."""
    logits, probabilities = session.run(list(OUTPUTS), {INPUT: np.ascontiguousarray(pixels)})
    return logits, probabilities
