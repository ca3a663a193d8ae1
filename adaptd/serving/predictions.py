"""From image files to labels: decoding as the version's card says, and the best classes of each answer. Knows no HTTP."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaptd.errors import ImageRejected
from adaptd.library.decode import decode_bytes
from adaptd.library.preprocessing import Limits
from adaptd.serving.session import Images, Model

TOP = 5
"""Classes told of each image."""


def decode_image(data: bytes, model: Model, limits: Limits) -> Images | ImageRejected:
    """A file's pixels, or why it was refused."""
    try:
        return decode_bytes(data, model.preprocessing, limits).pixels
    except ImageRejected as rejection:
        return rejection


def describe_prediction(probabilities: NDArray[np.float32], classes: Sequence[str]) -> dict[str, Any]:
    """The label of one image, and the classes that came next."""
    order = np.argsort(-probabilities, kind="stable")[:TOP]
    top = [{"label": classes[index], "probability": round(float(probabilities[index]), 6)} for index in order]
    return {**top[0], "top": top}
