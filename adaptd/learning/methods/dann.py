"""DANN: Ganin et al., *Domain-Adversarial Training of Neural Networks*, JMLR 17(59), 2016.

E = L_y − λ·L_d: the encoder learns the classes and unlearns the domains, the discriminator D learns the domains (section 4.2). D
stands behind a gradient reversal layer, so that all of it is one gradient and one step. λ is in the reversal alone; D
itself learns with λ = 1 (section 5.2.2).

A continual setting forces two choices. Every episode has a new D, and λ rises from 0 again: the two domains are others than in
the last one. Past domains have no part in the loss; a memory is kept for whatever method follows. The update rule is AdamW
instead of SGD with momentum, the rate falls as a cosine.
"""

from dataclasses import replace
from math import exp, sqrt

from torch.nn import functional

from adaptd.learning.batches import Batch, Pool
from adaptd.learning.methods.adversarial import discriminator_loss, make_discriminator, reverse
from adaptd.learning.methods.base import Method, Update
from adaptd.learning.methods.foundation import SOURCE, adaptation_pools
from adaptd.learning.methods.options import DannOptions
from adaptd.learning.stepper import Stepper


def reversal_strength(progress: float, gamma: float) -> float:
    """λ_p = 2 / (1 + exp(−γ·p)) − 1, from 0 towards 1 as p goes from 0 to 1 (section 5.2.2)."""
    return 2 / (1 + exp(-gamma * progress)) - 1


class Dann(Method[DannOptions]):
    """Cross-entropy on the source, and a discriminator behind gradient reversal."""

    stepper: Stepper

    def choose_pools(self) -> tuple[Pool, ...]:
        """Source and target; the memories' share is the target's."""
        return adaptation_pools(self.data, replace(self.plan, memory_share=0.0))

    def build(self) -> None:
        """One stepper over everything."""
        width, hidden = self.model.classifier.in_features, self.options.discriminator_hidden
        self.discriminator = self.add_network("discriminator", lambda: make_discriminator(width, hidden))
        self.stepper = self.train("encoder", "classifier", "discriminator")

    def update(self, batch: Batch) -> Update:
        """The gradient of L_y + L_d, the encoder's part of L_d times −λ."""
        labels = batch.parts[0].labels
        assert labels is not None
        features = self.model.encode(batch.images)
        strength = reversal_strength(batch.step / batch.steps, self.options.gamma)
        domains = self.discriminator(reverse(features, strength))
        count = len(labels)
        classes = functional.cross_entropy(self.model.classify(features[:count]), labels)
        discriminator = discriminator_loss(domains[:count], domains[count:])
        self.stepper.backward(classes + discriminator)
        self.stepper.reduce()
        return Update(
            {SOURCE: classes.item(), "discriminator": discriminator.item()}, {"total": sqrt(self.stepper.gram().item())}
        )
