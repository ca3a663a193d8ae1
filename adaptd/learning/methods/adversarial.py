"""What adversarial methods share: gradient reversal, the discriminator D, and ADDA's two players.

ADDA: Tzeng, Hoffman, Saenko, Darrell, *Adversarial Discriminative Domain Adaptation*, CVPR 2017. What stands beside the
adversarial loss, and how it becomes one gradient, is each method's own.
"""

from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from adaptd.learning.methods.base import Method
from adaptd.learning.methods.options import AddaOptions
from adaptd.learning.methods.registry import get_entry
from adaptd.learning.stepper import Stepper

Options = TypeVar("Options", bound=AddaOptions)


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return features.view_as(features)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * -ctx.strength, None


def reverse(features: Tensor, strength: float) -> Tensor:
    """R(x) = x on the way forward, dR/dx = −strength · I on the way back (Ganin et al. 2016, section 4.2)."""
    reversed_later: Tensor = _Reversal.apply(features, strength)  # type: ignore[no-untyped-call]  # torch has no types here
    return reversed_later


def make_discriminator(features: int, hidden: int) -> nn.Module:
    """D, features → hidden → hidden → 1: how surely a feature vector comes from the source, as a logit [n]."""
    return nn.Sequential(
        nn.Linear(features, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, 1),
        nn.Flatten(0),
    )


def discriminator_loss(source: Tensor, target: Tensor) -> Tensor:
    """−E[log D(f_s)] − E[log(1 − D(f_t))], from logits: source is 1, target 0, each domain counts the same."""
    return -functional.logsigmoid(source).mean() - functional.logsigmoid(-target).mean()


def inverted_losses(target: Tensor) -> Tensor:
    """−log D(f_t) of each image, from logits: with inverted labels, the target is called source (ADDA, section 3.2)."""
    return -functional.logsigmoid(target)


class Adda(Method[Options]):
    """ADDA's two players: D tells the source's features from the target's, the encoder makes D take the target for the source.

    As published, the source's features come from a fixed encoder and the target's encoder starts from it. Both players step at
    once, from the same features, as in the authors' code.

    A continual setting forces choices. One encoder serves every domain: the fixed one is a copy of it as the episode begins, so
    past domains have shaped it too; and as it leaves the source behind, the classifier has to move with it, by the
    cross-entropies of source and memories that each method weighs or constrains. D is a new one in every episode and sees the
    source and the new target alone, as in the GRCL paper.
    """

    adversary: Stepper

    def build(self) -> None:
        """The fixed encoder, and D with its own AdamW at that rule's rate, whatever moves the model."""
        self.fixed_encoder = self.add_network("fixed_encoder", lambda: deepcopy(self.model.encoder).eval().requires_grad_(False))
        width, hidden = self.model.classifier.in_features, self.options.discriminator_hidden
        self.discriminator = self.add_network("discriminator", lambda: make_discriminator(width, hidden))
        rates = get_entry(self.name).rates
        rate = self.options.discriminator_rate * rates["adamw"] / rates[self.plan.optimizer]
        self.adversary = self.train("discriminator", rule="adamw", rate=rate)

    def teach_discriminator(self, source_images: Tensor, target_features: Tensor) -> float:
        """Give D its gradient; its loss."""
        with torch.no_grad():
            source = self.fixed_encoder(self.model.normalise(source_images))
        loss = discriminator_loss(self.discriminator(source), self.discriminator(target_features.detach()))
        self.adversary.backward(loss)
        return loss.item()
