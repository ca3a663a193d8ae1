"""The ONNX session that every contestant but adaptd runs, with adaptd's options. Also runs in the peers' environment."""

import base64
import os
from typing import Any

import numpy as np
import onnxruntime as ort

MAX_BATCH = 64


class Net:
    """One session; the file and the number of threads come from the environment."""

    def __init__(self) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = int(os.environ["PEER_THREADS"])
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(os.environ["PEER_MODEL"], options)
        self.shape = self.session.get_inputs()[0].shape[1:]

    def decode(self, text: str) -> Any:
        """Base64 → uint8 [N, 3, S, S]."""
        return np.frombuffer(base64.b64decode(text), np.uint8).reshape(-1, *self.shape)

    def run(self, inputs: list[Any]) -> list[Any]:
        """Probabilities of several requests' images, in runs of at most MAX_BATCH images."""
        joined = np.concatenate(inputs)
        pieces = [joined[start : start + MAX_BATCH] for start in range(0, len(joined), MAX_BATCH)]
        output = np.concatenate([self.session.run(["probabilities"], {"images": piece})[0] for piece in pieces])
        return list(np.split(output, np.cumsum([len(each) for each in inputs])[:-1]))
