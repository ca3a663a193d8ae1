"""Whether an ONNX file can be run at all. What it answers is `parity`'s business."""

from pathlib import Path

import onnxruntime


def loads_in_onnxruntime(path: Path) -> str | None:
    """Why ONNX Runtime cannot load a model; None where it can."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # the answer says it; the log would say it again on standard error
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Rewriting the graph takes most of the time and proves nothing.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    # Its errors have no common class but Exception.
    except Exception as problem:  # noqa: BLE001
        return " ".join(str(problem).split())
    return None
