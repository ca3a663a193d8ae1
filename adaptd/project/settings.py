"""Every setting of a project: how it learns is said in `learning.settings`, the rest here. Reading them happens in `layers`."""

import hashlib
import json
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_serializer, field_validator, model_validator

from adaptd.learning.methods.settings import MethodSettings
from adaptd.learning.origins import LITE0_MEAN, LITE0_SIZE, LITE0_STD
from adaptd.learning.settings import AugmentationSettings, MemorySettings, ModelSettings, SourceSettings, TrainingSettings
from adaptd.sections import (
    DEVICE_PATTERN,
    PATH_PATTERN,
    VISIBLE_PATTERN,
    WINDOW_PATTERN,
    Count,
    CountOrZero,
    NotNegative,
    Positive,
    Section,
    Share,
)

Port = Annotated[int, Field(ge=0, le=65535)]
Window = Annotated[str, Field(pattern=WINDOW_PATTERN)]
Folder = Annotated[str, Field(pattern=PATH_PATTERN)]


ENOUGH_TO_TELL = 50
"""With fewer images nobody can tell whether a drop is a new domain."""


def hide_password(url: str) -> str:
    """A database's address for people, logs and records."""
    return re.sub(r"([?&]password=)[^&]*", r"\1***", re.sub(r"(://[^:/]*):.*@", r"\1:***@", url))


class PathsSettings(Section):
    """Where things live: relative to the project folder, or absolute; ~ is your home."""

    inbox: Folder = Field("inbox", description="the watched folder: each sub-folder dropped here is a domain")
    state: Folder = Field("state", description="database, caches, memories, checkpoints; keep it on a local disk")
    models: Folder = Field("models", description="published versions, a Triton model repository; same filesystem as state")

    @model_validator(mode="after")
    def _three_folders(self) -> Self:
        inbox, state, models = (Path(os.path.normpath(Path("/project", path))) for path in (self.inbox, self.state, self.models))
        if state == models or state.is_relative_to(inbox) or models.is_relative_to(inbox):
            raise ValueError("inbox, state and models must be three folders, and the inbox must not hold the others")
        return self


class IntakeSettings(Section):
    """When a drop is complete, and which files are let in."""

    settle_seconds: NotNegative = Field(5.0, description="a drop is complete when nothing in it changed for this long")
    temporary_seconds: NotNegative = Field(
        3600.0,
        description="a temporary file unchanged for this long was left behind: the drop is taken, the file goes to quarantine",
    )
    scan_seconds: Positive = Field(60.0, description="look at the whole inbox at least this often")
    mode: Literal["claim", "in-place"] = Field(
        "claim", description="claim moves drops out of the inbox; in-place reads them there"
    )
    minimum_images: Count = Field(16, description="wait for this many usable images before training")
    known_drops: Literal["adapt", "skip", "merge"] = Field(
        "adapt",
        description="a drop under a new name that is no new domain: adapt says so and adapts to it; skip says so and learns "
        "nothing from it; merge makes it a further delivery of the domain that it is known as, or skips it where that is the "
        f"source; skip and merge make drops wait for {ENOUGH_TO_TELL} images. A drop with no new image is always skipped",
    )
    trigger: Literal["settled", "manual"] = Field(
        "settled", description="settled: train by itself; manual: wait for `adaptd resume`"
    )
    window: Window = Field("", description="train only in this time of day, such as 22:00-06:00; empty: always")
    min_free_bytes: CountOrZero = Field(
        500_000_000, description="with less room than this on the disk of the state folder nothing is claimed or trained"
    )
    max_file_bytes: Count = Field(64_000_000, description="larger files are quarantined")
    max_pixels: Count = Field(50_000_000, description="images with more pixels are quarantined")


class EvaluationSettings(Section):
    """How accuracies are found."""

    batch_size: Count = Field(512, description="images in a forward pass")
    held_out: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.15, description="share of a drop without a test set that is not learned from: accuracies are estimated on it"
    )
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(0.95, description="level of the intervals shown with accuracies")


class LabelsSettings(Section):
    """Labels that people give to a domain's images after the fact."""

    train: bool = Field(
        False,
        description="let labelled images, but for those that are measured on, join their domain's next episode with these labels",
    )


class GateSettings(Section):
    """What a candidate may lose before it is rejected, as shares of 1."""

    max_source_loss: Share = Field(0.01, description="on the source test set")
    max_domain_loss: Share = Field(0.02, description="on any older domain")
    min_class_share: Share = Field(0.1, description="class collapse: a class predicted less than this share of its usual rate")
    max_negative_flips: Share = Field(0.1, description="images that were right before and are wrong after")
    estimates: Literal["hold", "ignore"] = Field(
        "hold",
        description="where nobody labelled and estimates say that it got worse: hold keeps the candidate for a person to decide",
    )


class ExportSettings(Section):
    """The ONNX file."""

    opset: Annotated[int, Field(ge=18)] = Field(18, description="ONNX operator set")
    parity_tolerance: Positive = Field(0.0001, description="largest difference of probabilities between torch and ONNX Runtime")
    quantize: bool = Field(False, description="also publish a static int8 model, under its own name")
    quantized_max_loss: Share = Field(
        0.02, description="accuracy the int8 model may lose on the source test set and still be published"
    )
    keep_versions: CountOrZero = Field(0, description="retire older versions beyond this many; 0: keep all")


class RetentionSettings(Section):
    """How much is kept."""

    state_bytes: CountOrZero = Field(
        0, description="`adaptd gc` deletes the oldest originals of finished domains beyond this size of state; 0: no budget"
    )


class ServingSettings(Section):
    """`adaptd serve`."""

    host: str = Field("127.0.0.1", description="address; anything but loopback needs a token")
    port: Port = Field(8080, description="port; 0: any free one")
    grpc_port: Port = Field(0, description="port of the Open Inference Protocol over gRPC, at the same address; 0: none")
    token: str = Field("", pattern=VISIBLE_PATTERN, description="clients must send it as `Authorization: Bearer …`; empty: none")
    device: str = Field(
        "auto",
        pattern=DEVICE_PATTERN,
        description="what models run on: cpu, cuda, cuda:1, mps; auto: a GPU where the installed ONNX Runtime is built for one",
    )
    poll_seconds: Positive = Field(1.0, description="look for a new version this often")
    max_batch_size: Count = Field(64, description="images in one run of the model, those of several requests together")
    max_queue: Count = Field(256, description="waiting requests before clients are told to come back later")
    max_request_bytes: Count = Field(64_000_000, description="larger requests are refused")
    request_seconds: Positive = Field(30.0, description="a request must have arrived whole within this time")
    max_held_bytes: Count = Field(
        256_000_000, description="bytes of all requests in memory together; beyond that clients are told to come back later"
    )
    max_request_pixels: Count = Field(200_000_000, description="pixels of all images of one request; more are refused")
    max_decode_seconds: Positive = Field(20.0, description="time that decoding the images of one request may take")
    max_connections: Count = Field(
        1024, description="connections at a time, at most half of the descriptors; beyond that the longest silent one is closed"
    )

    @field_serializer("token")
    def _hidden(self, token: str) -> str:
        """Settings are printed, and stored with every episode: the token is not."""
        return "***" if token else ""


class MetricsSettings(Section):
    """Prometheus and the dashboard, served by `adaptd run`."""

    host: str = Field("127.0.0.1", description="address; on anything but loopback the pages need a token")
    port: Port = Field(9109, description="port; 0: any free one")
    token: str = Field(
        "",
        pattern=VISIBLE_PATTERN,
        description="whoever promotes or rolls back on a page must give it; and, beyond loopback, whoever reads one; empty: none",
    )
    insecure: bool = Field(False, description="let anybody who reaches the address read the pages, without a token")
    max_connections: Count = Field(128, description="connections at a time; beyond that the longest silent one is closed")

    @field_serializer("token")
    def _hidden(self, token: str) -> str:
        """Settings are printed, and stored with every episode: the token is not."""
        return "***" if token else ""


class DatabaseSettings(Section):
    """The store."""

    url: str = Field(
        "",
        description="empty: SQLite in the state folder; or sqlite:///FILE, relative to the project; or postgresql://user@host/name",
    )
    busy_timeout_seconds: Annotated[float, Field(gt=0, le=86400)] = Field(30.0, description="wait this long for another writer")

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        if not re.match(r"$|sqlite:///[^?]|postgresql(\+psycopg)?://", url):
            raise ValueError("use sqlite:///FILE or postgresql://user@host/name")
        return url

    @field_serializer("url")
    def _shown(self, url: str) -> str:
        """Settings are printed, and stored with every episode: the password is not."""
        return hide_password(url)


class LoggingSettings(Section):
    """Log lines on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="least serious line shown")
    format: Literal["auto", "human", "json"] = Field("auto", description="auto: human on a terminal, JSON lines otherwise")


class Settings(Section):
    """Every setting, frozen."""

    paths: PathsSettings = PathsSettings()
    model: ModelSettings = ModelSettings()
    augmentation: AugmentationSettings = AugmentationSettings()
    source: SourceSettings = SourceSettings()
    intake: IntakeSettings = IntakeSettings()
    method: MethodSettings = MethodSettings()
    training: TrainingSettings = TrainingSettings()
    memory: MemorySettings = MemorySettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    labels: LabelsSettings = LabelsSettings()
    gate: GateSettings = GateSettings()
    export: ExportSettings = ExportSettings()
    retention: RetentionSettings = RetentionSettings()
    serving: ServingSettings = ServingSettings()
    metrics: MetricsSettings = MetricsSettings()
    database: DatabaseSettings = DatabaseSettings()
    logging: LoggingSettings = LoggingSettings()

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the resolved values, stored with every episode."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    def with_secrets(self) -> str:
        """All values as JSON, the database's password too: for a process of ours, never for a file or a log."""
        document = self.model_dump(mode="json")
        document["database"]["url"] = self.database.url
        return json.dumps(document)


LENET_SETTINGS: dict[str, object] = {
    "model.image_size": 32,
    "model.mean": (0.5, 0.5, 0.5),
    "model.std": (0.5, 0.5, 0.5),
    "augmentation.horizontal_flip": False,
    "augmentation.shift": 0.1,
    "source.learning_rate": 0.002,
}
"""What goes with a LeNet: digits are small, a mirrored digit is another symbol, and a small network learns faster."""

EFFICIENTNET_LITE0_SETTINGS: dict[str, object] = {
    "model.image_size": LITE0_SIZE,
    "model.mean": LITE0_MEAN,
    "model.std": LITE0_STD,
}
"""What goes with EfficientNet-Lite0's weights."""

TRAINED_SETTINGS: dict[str, object] = {"source.epochs": 6, "training.epochs": 6}
"""What goes with trained weights: features that are good already are good again after a few passes."""
