"""How Triton reads a model repository: its configuration file, and which folders it takes for versions. Touches no file."""

import re
from dataclasses import dataclass

from adaptd.publishing.card import INPUT, OUTPUTS, Card

CONFIG_FILE = "config.pbtxt"
MODEL_FILE = "model.onnx"
MAX_BATCH_SIZE = 64


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What all versions of a model have in common. One that differs needs another model name."""

    name: str
    classes: int
    image_size: int
    max_batch_size: int = MAX_BATCH_SIZE

    @classmethod
    def of(cls, card: Card) -> "ModelConfig":
        """The configuration a version needs."""
        return cls(card.model, len(card.classes), card.preprocessing.image_size)

    def text(self) -> str:
        """`config.pbtxt`. Dimensions are without the batch, because max_batch_size is above 0."""
        outputs = ",\n".join(f'  {{ name: "{name}" data_type: TYPE_FP32 dims: [ {self.classes} ] }}' for name in OUTPUTS)
        return (
            "# Written once by adaptd. Leave these lines; settings of your own may follow below them.\n"
            f'name: "{self.name}"\n'
            'platform: "onnxruntime_onnx"\n'
            f"max_batch_size: {self.max_batch_size}\n"
            f'input [\n  {{ name: "{INPUT}" data_type: TYPE_UINT8 dims: [ 3, {self.image_size}, {self.image_size} ] }}\n]\n'
            f"output [\n{outputs}\n]\n"
            "dynamic_batching { }\n"
        )


def quantized_name(model: str) -> str:
    """The name an int8 model is published under."""
    return f"{model}-int8"


def read_version(name: str) -> int | None:
    """The version Triton sees in a folder's name: C++ `stoll`, so `3.tmp` is 3; a leading 0 is ignored, and so is `x3`."""
    found = re.match(r"\s*[+-]?\d+", name, re.ASCII)
    return None if found is None or (len(name) > 1 and name.startswith("0")) else int(found.group())


def is_version(name: str) -> bool:
    """Whether a folder's name is one adaptd writes: a positive integer and nothing else."""
    return re.fullmatch(r"[1-9][0-9]{0,17}", name) is not None
