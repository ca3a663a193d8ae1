"""CUA: Bobu, Tzeng, Hoffman, Darrell, *Adapting to Continuously Shifting Domains*, ICLR workshop 2018.

ADDA against the shift and replay against forgetting, in the multitask form in which the GRCL paper compares it (its Eq. 13, with
the adversarial loss for the contrastive one): L = L_adv + λ₁·L_ce(source) + λ₂·L_ce(memory). Memories and their labels are
GRCL's, as there. What ADDA is in a continual setting stands in `adversarial`.
"""

from math import sqrt

import torch
from torch.nn import functional

from adaptd.learning.batches import Batch
from adaptd.learning.methods.adversarial import Adda, inverted_losses
from adaptd.learning.methods.base import Update
from adaptd.learning.methods.foundation import MEMORY, SOURCE
from adaptd.learning.methods.options import CuaOptions
from adaptd.learning.stepper import Stepper


class Cua(Adda[CuaOptions]):
    """ADDA's adversarial loss and cross-entropy on source and memories, weighted and added."""

    stepper: Stepper

    def build(self) -> None:
        """ADDA's networks, and one gradient over encoder and classifier."""
        super().build()
        self.stepper = self.train("encoder", "classifier")

    def update(self, batch: Batch) -> Update:
        """The gradient of the weighted sum; D's beside it."""
        weights = {SOURCE: self.options.source_weight, MEMORY: self.options.memory_weight}
        features = torch.split(self.model.encode(batch.images), [len(part.rows) for part in batch.parts])
        discriminator = self.teach_discriminator(batch.parts[0].images, features[-1])
        losses = {"adversarial": inverted_losses(self.discriminator(features[-1])).mean()}
        total = losses["adversarial"]
        for part, own in zip(batch.parts, features, strict=True):
            if part.labels is not None and weights[part.name]:
                losses[part.name] = functional.cross_entropy(self.model.classify(own), part.labels)
                total = total + weights[part.name] * losses[part.name]
        self.stepper.backward(total)
        self.stepper.reduce()
        values = {name: loss.item() for name, loss in losses.items()}
        return Update({**values, "discriminator": discriminator}, {"total": sqrt(self.stepper.gram().item())})
