"""DADA: features that say the class and not the domain, parted from those that say the domain and those that say no class.

Peng, Huang, Sun, Saenko: *Domain Agnostic Learning with Disentangled Representations*, ICML 2019. f_G are the encoder's features;
disentanglers D make of them f_di (the class, whatever the domain), f_ds (the domain) and f_ci (all but the class). What this
setting decides, and where the publication's code says something else:

- What is served is a linear classifier on the encoder, so f_di is f_G itself: where the publication moves D_di, the encoder
  moves. f_G is reconstructed from f_ds and f_ci, a pair of the code's; the paper's pairs have f_di, which would give it away.
- Class confusion moves D_ci alone, the disentangler of the paper's text. In the code the encoder moves too; here that would take
  the class out of f_di, on the target without a label that brings it back.
- Disentanglers take no variational sample, as in the code, and have neither BatchNorm nor dropout: a network that adapts is
  a fixed function of each image here (decision 3).
- The ring counts norms in multiples of their mean. The code's encoder ends with a BatchNorm that learns, which keeps the scale;
  statistics are fixed here (decision 3), and the ring alone would shrink a LeNet's features until no class is seen in them.
- The estimator of mutual information climbs while the others descend. In the code all descend, so that it estimates nothing.
- The domain identifier sees f_di and f_ds, as in the paper; in the code f_di alone, which leaves f_ds without a meaning.
- The code also makes two classifiers disagree as MCD does. The paper's objective has no such term, and this has none.
- There is no memory in the loss: DADA has none. Its share of a batch is the target's.
"""

from dataclasses import replace
from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

from adaptd.learning.batches import Batch, BatchPart, Pool
from adaptd.learning.methods.base import Method, Update
from adaptd.learning.methods.foundation import SOURCE, adaptation_pools
from adaptd.learning.methods.options import DadaOptions
from adaptd.learning.stepper import Stepper


def disentangler(width: int) -> nn.Module:
    """D: two layers, from features to features."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


def perceptron(width: int, hidden: int) -> nn.Module:
    """One number of a vector: DI and M."""
    return nn.Sequential(nn.Linear(width, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 1))


def mutual_information(estimator: nn.Module, p: Tensor, q: Tensor, order: Tensor) -> Tensor:
    """1/n Σ T(p, q) − log 1/n Σ exp T(p, q′), q′ = q in another order: at most I(P; Q), and it once T is the best (Eq. 7)."""
    joint: Tensor = estimator(torch.cat([p, q], dim=1)).squeeze(1)
    product: Tensor = estimator(torch.cat([p, q[order]], dim=1)).squeeze(1)
    return joint.mean() - (torch.logsumexp(product, dim=0) - log(len(product)))


def confusion_loss(logits: Tensor) -> Tensor:
    """−log p, the mean over classes and images: least where all are as likely: descending raises the entropy (Eq. 3)."""
    return -functional.log_softmax(logits, dim=1).mean()


def ring_loss(features: Tensor) -> Tensor:
    """1/2n Σ (‖f‖/R − 1)², with the batch's mean norm for R as in the code (Eq. 8)."""
    norms: Tensor = torch.linalg.vector_norm(features, dim=1)
    mean = norms.mean()
    return (norms / mean - 1).square().mean() / 2 if mean > 0 else mean


class Dada(Method[DadaOptions]):
    """One loss after the other, each with a step of the networks it is about; a network has one update rule for all its steps."""

    steppers: dict[str, Stepper]

    def choose_pools(self) -> tuple[Pool, ...]:
        """Source and target."""
        return adaptation_pools(self.data, replace(self.plan, memory_share=0.0))

    def build(self) -> None:
        """D_ds, D_ci, class identifier C of f_ci, domain identifier DI, estimator M and reconstructor R."""
        width, classes = self.model.classifier.in_features, self.model.classifier.out_features
        self.d_ds = self.add_network("d_ds", lambda: disentangler(width))
        self.d_ci = self.add_network("d_ci", lambda: disentangler(width))
        self.c_ci = self.add_network("c_ci", lambda: nn.Linear(width, classes))
        self.di = self.add_network("di", lambda: perceptron(width, 256))
        self.m = self.add_network("m", lambda: perceptron(2 * width, 512))
        self.r = self.add_network("r", lambda: nn.Linear(2 * width, width))
        self.steppers = {name: self.train(name) for name in ("encoder", "classifier", "d_ds", "d_ci", "c_ci", "di", "m", "r")}

    def update(self, batch: Batch) -> Update:
        """Eight steps, in the order of the publication's code."""
        options, losses = self.options, {}
        losses[SOURCE] = self._descend(self.cross_entropy(batch.parts[0]), "classifier", "c_ci", "d_ci", "encoder")
        losses["ring"] = self._descend(options.ring_weight * ring_loss(self.model.encode(batch.images)), "encoder")
        losses["mutual"] = -self._descend(-self.mutual(batch), "m")
        self._descend(options.mutual_weight * self.mutual(batch), "d_ds", "d_ci", "encoder")
        losses["confusion"] = self._descend(self.confusion(batch.images), "d_ci")
        losses["domain"] = self._descend(self.identify(batch), "di", "d_ds")
        self._descend(options.domain_weight * self.fool(batch), "encoder")
        rebuilt = options.reconstruction_weight * self.reconstruction(batch.images)
        losses["reconstruction"] = self._descend(rebuilt, "d_ds", "d_ci", "r")
        return Update(losses)

    def cross_entropy(self, source: BatchPart) -> Tensor:
        """L_ce (Eq. 2): the source's class, from f_di and from f_ci."""
        assert source.labels is not None
        f_di = self.model.encode(source.images)
        logits = self.model.classify(f_di), self.c_ci(self.d_ci(f_di))
        return sum((functional.cross_entropy(each, source.labels) for each in logits), f_di.new_zeros(()))

    def confusion(self, images: Tensor) -> Tensor:
        """L_ent (Eq. 3): C, which stays as it is, must not see a class in f_ci. The encoder has no part in it."""
        with torch.no_grad():
            features = self.model.encode(images)
        return confusion_loss(self.c_ci(self.d_ci(features)))

    def identify(self, batch: Batch) -> Tensor:
        """L_DI (Eq. 4): the domain, source 1 and target 0, from f_di and f_ds. D_ds helps; the encoder has no part in it."""
        with torch.no_grad():
            f_di = self.model.encode(batch.images)
        logits = self.di(torch.cat([f_di, self.d_ds(f_di)])).squeeze(1)
        return functional.binary_cross_entropy_with_logits(logits, _is_source(batch).repeat(2))

    def fool(self, batch: Batch) -> Tensor:
        """The same for f_di with domains exchanged: what the encoder descends, so that f_di does not say the domain."""
        logits = self.di(self.model.encode(batch.images)).squeeze(1)
        return functional.binary_cross_entropy_with_logits(logits, 1 - _is_source(batch))

    def mutual(self, batch: Batch) -> Tensor:
        """The mean of M's estimates for (f_di, f_ds) and (f_di, f_ci), in the source and in the target (Eq. 7)."""
        random, found = batch.generator("mutual information"), []
        for part in batch.parts:
            f_di = self.model.encode(part.images)
            order = torch.randperm(len(f_di), generator=random).to(f_di.device)
            found += [mutual_information(self.m, f_di, disentangle(f_di), order) for disentangle in (self.d_ds, self.d_ci)]
        return torch.stack(found).mean()

    def reconstruction(self, images: Tensor) -> Tensor:
        """‖R(f_ds, f_ci) − f_G‖², the mean over entries (Eq. 1)."""
        with torch.no_grad():
            features = self.model.encode(images)
        return functional.mse_loss(self.r(torch.cat([self.d_ds(features), self.d_ci(features)], dim=1)), features)

    def _descend(self, loss: Tensor, *groups: str) -> float:
        """One step of some networks along the loss; all others stay."""
        for group in groups:
            self.steppers[group].backward(loss, retain_graph=group != groups[-1])
        for group in groups:
            self.steppers[group].step()
        return loss.item()


def _is_source(batch: Batch) -> Tensor:
    """1 for the source's images, 0 for the target's."""
    return torch.cat([part.images.new_full((len(part.rows),), part.name == SOURCE) for part in batch.parts])
