"""One version ready to run: an ONNX Runtime session whose inputs and outputs are what is promised. Reads no files."""

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from adaptd.errors import VersionUnusable
from adaptd.library.preprocessing import Preprocessing
from adaptd.publishing.card import INPUT, OUTPUTS
from adaptd.publishing.session import open_session
from adaptd.serving.models import VersionContent

Images = NDArray[np.uint8]
Outputs = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Logits and probabilities, each [N, classes]."""


class Model:
    """A version that answers. Runs in any thread; what runs on it keeps it alive after it was swapped out.

    On the CPU, answers are the same to the last bit whatever batch an image is in (`tests/serving` holds it so).
    """

    def __init__(self, content: VersionContent, threads: int, device: str = "cpu") -> None:
        self.name = content.name
        self.version = content.version
        self.classes = content.classes
        self.preprocessing: Preprocessing = content.preprocessing
        self._session = open_session(content.model, threads, device)
        size = self.preprocessing.image_size
        self.image_shape = (3, size, size)
        self.image_bytes = self.preprocessing.row_bytes
        _check_signature(self._session, content)

    def run(self, images: Images) -> Outputs:
        """The answers to uint8 [N, 3, S, S]."""
        logits, probabilities = self._session.run(OUTPUTS, {INPUT: images})
        return logits, probabilities

    def warm_up(self) -> None:
        """Run a batch of one and of two, so that the first client does not wait for memory and threads.

        Large batches are not tried: that would take the processors from those whom the version before is answering.
        """
        for batch in (1, 2):
            outputs = self.run(np.zeros((batch, *self.image_shape), np.uint8))
            wanted = (batch, len(self.classes))
            if any(output.shape != wanted or output.dtype != np.float32 for output in outputs):
                raise VersionUnusable(f"version {self.version}: a batch of {batch} does not give {wanted} of float32")


def load_model(content: VersionContent, threads: int, device: str = "cpu") -> Model:
    """A warm model; VersionUnusable, and nothing else, where it is not available."""
    try:
        model = Model(content, threads, device)
        model.warm_up()
    except VersionUnusable:
        raise
    # The runtime raises its own kinds of Exception, and what a strange graph provokes is open-ended.
    except Exception as problem:
        text = " ".join(str(problem).split())[:300]
        raise VersionUnusable(f"version {content.version} does not run: {text}") from problem
    return model


def _check_signature(session: ort.InferenceSession, content: VersionContent) -> None:
    """The contract of every published version: one uint8 input of any batch, two float32 outputs."""
    size = content.preprocessing.image_size
    inputs = [(each.name, each.type, each.shape) for each in session.get_inputs()]
    outputs = {each.name: each.type for each in session.get_outputs()}
    if [(name, kind, shape[1:]) for name, kind, shape in inputs] != [(INPUT, "tensor(uint8)", [3, size, size])]:
        raise VersionUnusable(f"version {content.version} takes {inputs}, not {INPUT} as uint8 [N, 3, {size}, {size}]")
    if isinstance(inputs[0][2][0], int):
        raise VersionUnusable(f"version {content.version} takes batches of {inputs[0][2][0]} only")
    if any(outputs.get(name) != "tensor(float)" for name in OUTPUTS):
        raise VersionUnusable(f"version {content.version} gives {outputs}, not {' and '.join(OUTPUTS)} as float32")
