"""The settings themselves: what they are called, what they may be, what they mean. Reading them happens in `config`."""

import hashlib
import json
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]
Clock = r"([01]\d|2[0-3]):[0-5]\d"
Window = Annotated[str, Field(pattern=rf"^$|^{Clock}-{Clock}$")]
Folder = Annotated[str, Field(pattern=r"^[^\x00]+$")]


def hide_password(url: str) -> str:
    """A database's address for people, logs and records."""
    return re.sub(r"([?&]password=)[^&]*", r"\1***", re.sub(r"(://[^:/]*):.*@", r"\1:***@", url))


class Section(BaseModel):
    """One `[section]` of adaptd.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


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


class ModelSettings(Section):
    """The classifier."""

    name: str = Field("classifier", pattern=NAME_PATTERN, description="the model's name in the repository and for clients")
    backbone: str = Field(
        "resnet18", description="lenet5, lenet, or any torchvision classification model: resnet18, mobilenet_v2, …"
    )
    classes: tuple[str, ...] = Field((), description="class names in output order; empty: the source's folder names, sorted")
    image_size: Annotated[int, Field(ge=8, le=1024)] = Field(224, description="images are worked on at this many pixels, squared")
    mean: tuple[float, float, float] = Field((0.485, 0.456, 0.406), description="normalisation mean of red, green, blue in 0…1")
    std: tuple[Positive, Positive, Positive] = Field((0.229, 0.224, 0.225), description="normalisation deviation, likewise")
    weights: str = Field(
        "", description="safetensors file, or `torchvision`, that the source training starts from; empty: random"
    )
    projector_hidden: Count = Field(2048, description="hidden width of the projector q")
    projector_output: Count = Field(128, description="length of the vectors in the bank")

    @field_validator("classes")
    @classmethod
    def _no_class_twice(cls, classes: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(classes)) < len(classes):
            raise ValueError("a class is named twice")
        return classes


class AugmentationSettings(Section):
    """Random changes of training images. Flip off where a mirrored image means something else (digits)."""

    brightness: Share = Field(0.4, description="colour jitter: brightness factor 1 ± this")
    contrast: Share = Field(0.4, description="colour jitter: contrast factor 1 ± this")
    saturation: Share = Field(0.4, description="colour jitter: saturation factor 1 ± this")
    hue: Annotated[float, Field(ge=0, le=0.5)] = Field(0.1, description="colour jitter: hue shift ± this")
    blur_probability: Share = Field(0.5, description="share of images blurred")
    blur_sigma: Positive = Field(1.0, description="largest deviation of the Gaussian blur, in pixels")
    horizontal_flip: bool = Field(True, description="mirror half of the images; must be off for digits")
    shift: Share = Field(0.0, description="move by at most this share of the width and height")


class SourceSettings(Section):
    """Episode 0: training on the labelled source."""

    test_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.2, description="share of each class held out as test set, when the folder brings no _test/"
    )
    epochs: CountOrZero = Field(30, description="passes over the source; 0: take the model in `weights` as it is")
    batch_size: Count = Field(64, description="images in a step")
    optimizer: Literal["sgd", "adamw"] = Field("adamw", description="update rule")
    learning_rate: Positive = Field(0.001, description="peak rate; warms up over the first 5 % and decays as a cosine")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="for sgd")
    weight_decay: NotNegative = Field(0.0005, description="decoupled for adamw, L2 for sgd")
    augment: bool = Field(True, description="use [augmentation] on the source")


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
    trigger: Literal["settled", "manual"] = Field(
        "settled", description="settled: train by itself; manual: wait for `adaptd resume`"
    )
    window: Window = Field("", description="train only in this time of day, such as 22:00-06:00; empty: always")
    min_free_bytes: CountOrZero = Field(
        500_000_000, description="with less room than this on the disk of the state folder nothing is claimed or trained"
    )
    max_file_bytes: Count = Field(64_000_000, description="larger files are quarantined")
    max_pixels: Count = Field(50_000_000, description="images with more pixels are quarantined")


class MethodSettings(Section):
    """How an episode adapts."""

    name: Literal[
        "grcl", "contrastive+sdc", "contrastive+source", "contrastive+source+memory", "source-only", "guarded", "self-training"
    ] = Field("guarded", description="the adaptation method; docs/method.md")
    constraints: Literal["pooled", "per-domain"] = Field(
        "pooled", description="pooled: one constraint over all memories (Eq. 6); per-domain: one for each (Eq. 6-0)"
    )
    temperature: Positive = Field(0.07, description="τ of the contrastive loss")
    negatives: Count = Field(1024, description="bank entries drawn as negatives in a step")
    bank_momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.5, description="m, how much of a bank entry stays in an update")
    source_weight: NotNegative = Field(1.0, description="λ₁ of the multitask methods")
    memory_weight: NotNegative = Field(1.0, description="λ₂ of the multitask methods")
    min_agreement: Share = Field(
        0.35, description="guarded: refuse a domain on which classifier and clusters agree less than this beyond chance"
    )
    patience: CountOrZero = Field(
        3, description="guarded: epochs without better agreement after which an episode ends with one more; 0: never early"
    )
    curriculum: bool = Field(True, description="guarded: learn from more images as they are understood better; false: from all")
    warp: Share = Field(1.0, description="guarded: how far images are turned, zoomed and slanted; 0: not at all")
    blend: Share = Field(0.3, description="guarded: how far target images shine through half of memory and target; 0: not at all")
    propagate: bool = Field(
        True, description="guarded: labels come from an image's neighbours too; false: from classifier and clusters"
    )
    views: Count = Field(4, description="guarded: views of an image whose mean gives its label; 1: the image as it is")


class TrainingSettings(Section):
    """The steps of an adaptation episode."""

    epochs: Count = Field(20, description="passes over the target domain")
    batch_size: Annotated[int, Field(ge=4)] = Field(256, description="images in a step, all parts together")
    source_share: Annotated[float, Field(gt=0, lt=1)] = Field(0.25, description="share of a batch drawn from the source")
    memory_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.25, description="share drawn from memories; goes to the target while there are none"
    )
    optimizer: Literal["auto", "sgd", "adamw", "rmsprop"] = Field(
        "auto", description="update rule applied to the projected gradient; auto: rmsprop for guarded, sgd for the others"
    )
    learning_rate: NotNegative = Field(
        0.0, description="peak rate, decays as a cosine; 0: what goes with the update rule and the backbone"
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="for sgd; above 0 it weakens the constraints")
    weight_decay: NotNegative = Field(0.0, description="above 0 it weakens the constraints")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(0, description="same seed, same result")
    checkpoint_seconds: NotNegative = Field(60.0, description="save a resumable state at least this often; 0: every step")
    max_nonfinite_steps: Count = Field(20, description="fail the episode after this many NaN or infinite steps in a row")
    threads: CountOrZero = Field(0, description="CPU threads; 0: what affinity and quota allow")

    @model_validator(mode="after")
    def _something_left_for_the_target(self) -> Self:
        if self.source_share + self.memory_share >= 1:
            raise ValueError("source_share and memory_share together must leave something for the target: keep their sum below 1")
        return self


class MemorySettings(Section):
    """What is kept of a past domain."""

    images_per_domain: Count = Field(1024, description="the most confident images kept, with their pseudo-labels")
    per_class_cap: CountOrZero = Field(0, description="at most this many of a class; 0: no cap")


class EvaluationSettings(Section):
    """How accuracies are found."""

    batch_size: Count = Field(512, description="images in a forward pass")
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(0.95, description="level of the intervals shown with accuracies")


class GateSettings(Section):
    """What a candidate may lose before it is rejected, as shares of 1."""

    max_source_drop: Share = Field(0.01, description="on the source test set")
    max_domain_drop: Share = Field(0.02, description="on any older domain")
    min_class_share: Share = Field(0.1, description="class collapse: a class predicted less than this share of its usual rate")
    max_negative_flips: Share = Field(0.1, description="images that were right before and are wrong after")


class ExportSettings(Section):
    """The ONNX file."""

    opset: Annotated[int, Field(ge=18)] = Field(18, description="ONNX operator set")
    parity_tolerance: Positive = Field(0.0001, description="largest difference of probabilities between torch and ONNX Runtime")
    quantize: bool = Field(False, description="also publish a static int8 model, under its own name")
    quantized_max_drop: Share = Field(
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
    token: str = Field("", pattern=r"^[!-~]*$", description="clients must send it as `Authorization: Bearer …`; empty: none")
    poll_seconds: Positive = Field(1.0, description="look for a new version this often")
    max_batch_size: Count = Field(64, description="images in one run of the model, those of several requests together")
    max_queue: Count = Field(256, description="waiting requests before clients are told to come back later")
    max_request_bytes: Count = Field(64_000_000, description="larger requests are refused")
    request_seconds: Positive = Field(30.0, description="a request must have arrived whole within this time")

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
        pattern=r"^[!-~]*$",
        description="whoever promotes or rolls back on a page must give it; and, beyond loopback, whoever reads one; empty: none",
    )
    insecure: bool = Field(False, description="let anybody who reaches the address read the pages, without a token")

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
