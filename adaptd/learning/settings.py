"""The settings that say how a model learns: what it is, how it is trained, what it keeps. [method] is in `methods.settings`.

Nothing here needs torch: settings are read by commands that must start at once.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from adaptd.sections import DEVICE_PATTERN, NAME_PATTERN, Count, CountOrZero, Momentum, NotNegative, Positive, Section, Share

Depth = Literal["all", "last-stage", "classifier"]
"""What of a model is trained: all of it, its last stage and what follows, or projector and classifier alone."""

DepthChoice = Literal["auto", "all", "last-stage", "classifier"]


class ModelSettings(Section):
    """The classifier."""

    name: str = Field("classifier", pattern=NAME_PATTERN, description="the model's name in the repository and for clients")
    backbone: str = Field(
        "resnet18",
        description="lenet5, lenet, efficientnet_lite0, any torchvision classifier (resnet18, mobilenet_v2, …), or timm:NAME",
    )
    classes: tuple[str, ...] = Field((), description="class names in output order; empty: the source's folder names, sorted")
    image_size: Annotated[int, Field(ge=8, le=1024)] = Field(224, description="images are worked on at this many pixels, squared")
    mean: tuple[float, float, float] = Field((0.485, 0.456, 0.406), description="normalisation mean of red, green, blue in 0…1")
    std: tuple[Positive, Positive, Positive] = Field((0.229, 0.224, 0.225), description="normalisation deviation, likewise")
    weights: str = Field(
        "",
        description="what the source training starts from: a safetensors file, or published weights from `torchvision`, "
        "`timm` or `package` (efficientnet_lite0); empty: random",
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
    momentum: Momentum = Field(0.9, description="for sgd")
    weight_decay: NotNegative = Field(0.0005, description="decoupled for adamw, L2 for sgd")
    augment: bool = Field(True, description="use [augmentation] on the source")
    depth: DepthChoice = Field(
        "auto", description="what is trained on the source, as training.depth says; auto: all of a model with random weights"
    )


class TrainingSettings(Section):
    """The steps of an adaptation episode."""

    epochs: Count = Field(20, description="passes over the target domain")
    batch_size: Annotated[int, Field(ge=4)] = Field(256, description="images in a step, all parts together")
    source_share: Annotated[float, Field(gt=0, lt=1)] = Field(0.25, description="share of a batch drawn from the source")
    memory_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.25, description="share drawn from memories; goes to the target while there are none"
    )
    optimizer: Literal["auto", "sgd", "adamw", "rmsprop"] = Field(
        "auto", description="update rule applied to the gradient that the method gives; auto: the method's own"
    )
    learning_rate: NotNegative = Field(
        0.0, description="peak rate, decays as a cosine; 0: what goes with the method, the update rule and the backbone"
    )
    momentum: Momentum = Field(0.0, description="for sgd alone; above 0 it weakens the constraints")
    weight_decay: NotNegative = Field(0.0, description="for sgd and adamw; above 0 it weakens the constraints")
    depth: DepthChoice = Field(
        "auto",
        description="what is trained: all, the last-stage of the backbone, or the classifier on its features; the rest is run "
        "once for each image and each of its views; auto: all of small networks and images, and on a GPU; else the last stage",
    )
    views: Count = Field(
        2, description="changed views of each image, where not all is trained: made once, and drawn from in every epoch"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(0, description="same seed, same result")
    checkpoint_seconds: NotNegative = Field(60.0, description="save a resumable state at least this often; 0: every step")
    max_nonfinite_steps: Count = Field(20, description="fail the episode after this many NaN or infinite steps in a row")
    max_lost_classes: Share = Field(
        0.25,
        description="fail an episode that unlearns more than this share of the classes on its domain, two at least; 1: never",
    )
    threads: CountOrZero = Field(0, description="CPU threads; 0: what affinity and quota allow")
    device: str = Field(
        "auto",
        pattern=DEVICE_PATTERN,
        description="what episodes and the source run on: cpu, cuda, cuda:1, mps; auto: a GPU where torch sees one",
    )

    @model_validator(mode="after")
    def _something_left_for_the_target(self) -> Self:
        if self.source_share + self.memory_share >= 1:
            raise ValueError("source_share and memory_share together must leave something for the target: keep their sum below 1")
        return self


class MemorySettings(Section):
    """What is kept of a past domain."""

    images_per_domain: Count = Field(1024, description="the most confident images kept, with their pseudo-labels")
    per_class_cap: CountOrZero = Field(0, description="at most this many of a class; 0: no cap")
