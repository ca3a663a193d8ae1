"""The card of a version: what it is, where it comes from, how good it is and how that was proven, as `card.json`.

Finding these things out is the business of the other modules here; this one needs neither torch nor numpy.
"""

import hashlib
import json
import platform
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from adaptd import __version__
from adaptd.errors import VersionDamaged
from adaptd.library.preprocessing import Preprocessing
from adaptd.records import AccuracyKind

CARD_FILE = "card.json"
MAX_CARD_BYTES = 16_000_000
SCHEMA = "adaptd.card/1"
SEAL = "seal"
"""SHA-256 of the rest of the card, so that a flipped byte in a label is noticed."""

INPUT = "images"
OUTPUTS = ("logits", "probabilities")
LIBRARIES = ("torch", "torchvision", "onnx", "onnxruntime", "onnxscript", "numpy")


class Part(BaseModel):
    """A piece of a card. Keys it does not know are left alone: a newer adaptd may add some."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Ancestor(Part):
    """One step of the way to this version."""

    version: int
    episode: int
    domain: str


class RowEntry(Part):
    """One entry of the version's row of R, never without how it is known."""

    domain: str
    value: float
    kind: AccuracyKind
    n: int
    low: float | None = None
    high: float | None = None
    estimator: str | None = None
    held_out: bool = False


class GateOutcome(Part):
    """What the gate decided, in sentences and in figures."""

    passed: bool
    reasons: tuple[str, ...]
    figures: dict[str, Any] = Field(default_factory=dict)


class Parity(Part):
    """How alike torch and the ONNX file answer: largest difference of probabilities, share of equal argmax.

    `ties` counts images whose two best classes are too close for either to call; see `check_parity`. Against an int8
    file there is no tolerance, only figures.
    """

    exporter: str
    max_error: float
    equal_argmax: float
    ties: int
    tolerance: float | None
    images: dict[str, int]


class Quantization(Part):
    """What int8 costs: its own accuracy row beside the float model's, and how often both say the same."""

    accuracy: float
    float_accuracy: float
    agreement: float
    n: int
    calibration_images: int


class Facts(Part):
    """What is known of a version before it is exported; it travels inside the ONNX file as well."""

    model: str
    version: int
    parent: int | None = None
    restores: int | None = None
    episode: int
    domain: str
    created_at: datetime
    backbone: str
    classes: tuple[str, ...] = Field(min_length=1)
    preprocessing: Preprocessing
    lineage: tuple[Ancestor, ...] = ()
    row: tuple[RowEntry, ...] = ()
    weights_sha256: str
    config_hash: str

    def to_metadata(self) -> dict[str, str]:
        """For `metadata_props`: strings as they are, everything else as JSON, under `adaptd.…`."""
        values = Facts.model_validate(self, from_attributes=True).model_dump(mode="json")
        return {f"adaptd.{key}": value if isinstance(value, str) else _dump(value) for key, value in sorted(values.items())}


class Card(Facts):
    """Everything about a published version. `forced_because` is set where a person overruled the gate."""

    gate: GateOutcome
    forced_because: str | None = None
    parity: Parity
    quantization: Quantization | None = None
    model_sha256: str
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """As in `card.json`, where the tensors are described for people and other tools too."""
        content = {"schema": SCHEMA, **self.model_dump(mode="json"), **describe_tensors(self)}
        return {**content, SEAL: hashlib.sha256(_dump(content).encode()).hexdigest()}

    def to_text(self) -> str:
        """The same card always gives the same bytes."""
        return json.dumps(self.to_json(), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def describe_tensors(facts: Facts) -> dict[str, Any]:
    """Inputs and outputs in the words of the Open Inference Protocol; −1 is the batch."""
    size = facts.preprocessing.image_size
    return {
        "inputs": [{"name": INPUT, "datatype": "UINT8", "shape": [-1, 3, size, size]}],
        "outputs": [{"name": name, "datatype": "FP32", "shape": [-1, len(facts.classes)]} for name in OUTPUTS],
    }


def software_versions() -> dict[str, str]:
    """What this version was made with. Reads the packages' metadata and imports none of them."""
    found = {"adaptd": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def read_card(folder: Path) -> Card:
    """The card in a version's folder.

    Raises:
        VersionDamaged: it is missing, of another schema, or was changed after it was written.
    """
    path = folder / CARD_FILE
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CARD_BYTES + 1)
        content: Any = json.loads(text) if len(text) <= MAX_CARD_BYTES else None
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise VersionDamaged(f"{path} is not a card of this adaptd ({SCHEMA}): a newer adaptd may have written it")
        seal = content.pop(SEAL, None)
        if seal != hashlib.sha256(_dump(content).encode()).hexdigest():
            raise VersionDamaged(f"{path} was changed after it was written: restore it from a backup, or publish again")
        return Card.model_validate(content)
    except OSError as error:
        raise VersionDamaged(f"cannot read {path} ({error}): restore it from a backup, or publish again") from error
    except (ValueError, RecursionError) as error:
        raise VersionDamaged(f"{path} is damaged: restore it from a backup, or publish again ({_first(error)})") from error


def _first(error: Exception) -> str:
    """What is wrong, in a line: pydantic's errors have several."""
    return " ".join(str(error).split())[:200]


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
