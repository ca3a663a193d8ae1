"""Tensors in safetensors files. What they are for is told by those who read them."""

from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from adaptd.errors import WeightsMismatch, WeightsUnavailable


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Every tensor of a file, and the text in its header.

    Raises:
        WeightsUnavailable: the file cannot be read.
        WeightsMismatch: it is something else, or is cut off.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118  # no mapping
    except OSError as error:
        raise WeightsUnavailable(f"cannot read the weights {path} ({error}): check the path") from error
    except SafetensorError as error:
        raise WeightsMismatch(f"{path} is not a safetensors file, or is damaged ({error}): fetch it again") from error
