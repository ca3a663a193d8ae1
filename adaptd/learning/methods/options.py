"""What can be set about each method: the `[method.<name>]` sections, one class a method or family. No torch here."""

from typing import Literal

from pydantic import Field

from adaptd.sections import Count, CountOrZero, Momentum, NotNegative, Positive, Section, Share


class NoOptions(Section):
    """Nothing can be set."""


class ContrastiveOptions(Section):
    """The contrastive loss and its bank."""

    temperature: Positive = Field(0.07, description="τ of the contrastive loss (Eq. 4)")
    negatives: Count = Field(1024, description="bank entries drawn as negatives in a step")
    bank_momentum: Momentum = Field(0.5, description="m, how much of a bank entry stays in an update (Eq. 3)")


class GrclOptions(ContrastiveOptions):
    """GRCL: the contrastive gradient under constraints from source and memories."""

    constraints: Literal["pooled", "per-domain"] = Field(
        "pooled", description="pooled: one constraint over all memories (Eq. 9); per-domain: one for each (Eq. 8)"
    )


class ContrastiveSdcOptions(ContrastiveOptions):
    """GRCL with the source constraint alone (Crt.+SDC of the ablation)."""


class ContrastiveSourceOptions(ContrastiveOptions):
    """Contrastive loss and cross-entropy on the source, added up (Crt.+Src. of the ablation)."""

    source_weight: NotNegative = Field(1.0, description="λ₁ of the multitask loss (Eq. 13)")


class ContrastiveSourceMemoryOptions(ContrastiveSourceOptions):
    """The same, and cross-entropy on the memories (Crt.+Src.+Mem. of the ablation)."""

    memory_weight: NotNegative = Field(1.0, description="λ₂ of the multitask loss (Eq. 13)")


class GuardedOptions(Section):
    """Guarded self-training."""

    source_weight: NotNegative = Field(1.0, description="weight of the source's cross-entropy")
    memory_weight: NotNegative = Field(1.0, description="weight of the memories' cross-entropy")
    min_agreement: Share = Field(
        0.4,
        description="refuse a domain that the model recognises less, from 0 (one class of the source alone) to 1 (the source); "
        "0: refuse nothing",
    )
    patience: CountOrZero = Field(
        3, description="epochs without better agreement after which an episode ends with one more; 0: never early"
    )
    curriculum: bool = Field(True, description="learn from more images as they are understood better; false: from all")
    warp: Share = Field(1.0, description="how far images are turned, zoomed and slanted; 0: not at all")
    mixup: Share = Field(0.3, description="largest weight of a target image mixed into half of memory and target; 0: no mixup")
    propagate: bool = Field(True, description="labels come from an image's neighbours too; false: from classifier and clusters")
    views: Count = Field(4, description="views of an image whose mean gives its label; 1: the image as it is")


class SelfTrainingOptions(GuardedOptions):
    """Guarded self-training without the projection, for the ablation."""


class DannOptions(Section):
    """Domain-adversarial training with gradient reversal."""

    gamma: NotNegative = Field(10.0, description="γ, how fast the reversal's strength rises from 0 to 1; 0: no reversal")
    discriminator_hidden: Count = Field(
        100, description="width of the discriminator's two hidden layers; the publication's SVHN network has 1024"
    )


class AddaOptions(Section):
    """ADDA's discriminator."""

    discriminator_hidden: Count = Field(500, description="width of the discriminator's two hidden layers")
    discriminator_rate: Positive = Field(1.0, description="the discriminator's learning rate, times that of adamw")


class CuaOptions(AddaOptions):
    """ADDA and cross-entropy on source and memories, added up."""

    discriminator_rate: Positive = Field(
        0.1,
        description="the discriminator's learning rate, times that of adamw; at 1, as published, it can leave the encoder behind",
    )
    source_weight: NotNegative = Field(1.0, description="λ₁, weight of the source's cross-entropy")
    memory_weight: NotNegative = Field(1.0, description="λ₂, weight of the memories' cross-entropy: the replay")


class GraOptions(AddaOptions):
    """ADDA under GRCL's constraints."""

    constraints: Literal["pooled", "per-domain"] = Field(
        "pooled", description="pooled: one constraint over all memories (Eq. 9); per-domain: one for each (Eq. 8)"
    )


class McdOptions(Section):
    """MCD: two classifiers and what they disagree on."""

    generator_steps: Count = Field(4, description="n, steps C of the encoder in each update")


class DadaOptions(Section):
    """DADA: disentangled features. Weights are those of the publication's code."""

    ring_weight: NotNegative = Field(1.0, description="weight of the ring-style normalisation (Eq. 8)")
    mutual_weight: NotNegative = Field(0.0001, description="weight of the mutual information between the features (Eq. 7)")
    domain_weight: NotNegative = Field(0.01, description="weight of hiding the domain from its identifier (Eq. 4)")
    reconstruction_weight: NotNegative = Field(0.01, description="weight of the reconstruction (Eq. 1)")
