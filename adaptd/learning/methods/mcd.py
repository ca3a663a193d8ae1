"""MCD: two classifiers that agree on the source show where the target is strange, and the encoder makes them agree there.

Saito, Watanabe, Ushiku, Harada: *Maximum Classifier Discrepancy for Unsupervised Domain Adaptation*, CVPR 2018, section 3.3.
What this setting decides:

- What is served is one linear classifier h on the encoder, trained before the episode begins. So F₁ = h + δ and F₂ = h − δ, with
  a linear δ of random weights: any two linear classifiers can be written so. Both start from what the model knows, and what is
  served is their mean at every moment: the ensemble that the publication's code reports. δ is left behind.
- The publication's classifiers have hidden layers on the digits. Here these belong to the encoder.
- There is no memory in the loss: MCD has none. Its share of a batch is the target's.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from adaptd.learning.batches import Batch, Pool
from adaptd.learning.methods.base import Method, Update
from adaptd.learning.methods.foundation import SOURCE, adaptation_pools
from adaptd.learning.methods.options import McdOptions
from adaptd.learning.stepper import Stepper


def discrepancy(one: Tensor, two: Tensor) -> Tensor:
    """D = 1/K Σₖ |p₁ₖ − p₂ₖ| of two classifiers' logits [n, K], the mean over images (Eq. 1, 5)."""
    return (functional.softmax(one, dim=1) - functional.softmax(two, dim=1)).abs().mean()


class Mcd(Method[McdOptions]):
    """Three steps in each update. The encoder G has one update rule for steps A and C, the classifiers one for A and B."""

    delta: nn.Module
    """Half of what F₁ and F₂ differ by."""
    encoder: Stepper
    classifiers: Stepper

    def choose_pools(self) -> tuple[Pool, ...]:
        """Source and target."""
        return adaptation_pools(self.data, replace(self.plan, memory_share=0.0))

    def build(self) -> None:
        """δ, shaped as the classifier."""
        h = self.model.classifier
        self.delta = self.add_network("delta", lambda: nn.Linear(h.in_features, h.out_features))
        self.classifiers = self.train("classifier", "delta")
        self.encoder = self.train("encoder")

    def update(self, batch: Batch) -> Update:
        """Steps A, B and, several times, C."""
        source, target = batch.parts
        assert source.labels is not None
        entropy = self.cross_entropy(self.model.encode(source.images), source.labels)
        self.classifiers.backward(entropy, retain_graph=True)
        self.encoder.backward(entropy)
        self.classifiers.step()
        self.encoder.step()

        with torch.no_grad():
            features = self.model.encode(batch.images)
        known, strange = features[: len(source.rows)], features[len(source.rows) :]
        found = self.disagreement(strange)
        self.classifiers.backward(self.cross_entropy(known, source.labels) - found)
        self.classifiers.step()

        for repeat in range(self.options.generator_steps):
            if repeat:
                self.encoder.step()
            self.encoder.backward(self.disagreement(self.model.encode(target.images)))
        return Update({SOURCE: entropy.item(), "discrepancy": found.item()})

    def classify(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of F₁ and F₂."""
        mean, difference = self.model.classify(features), self.delta(features)
        return mean + difference, mean - difference

    def cross_entropy(self, features: Tensor, labels: Tensor) -> Tensor:
        """L(X_s, Y_s) of both classifiers: all of step A (Eq. 2, 3), and what holds them in step B (Eq. 4)."""
        one, two = self.classify(features)
        return functional.cross_entropy(one, labels) + functional.cross_entropy(two, labels)

    def disagreement(self, features: Tensor) -> Tensor:
        """L_adv(X_t): the classifiers raise it in step B (Eq. 4, 5), the encoder lowers it in step C (Eq. 6)."""
        return discrepancy(*self.classify(features))
