"""GRA, of the GRCL paper: GRCL with ADDA's adversarial loss in the place of the contrastive one.

g_t is the gradient of ADDA's adversarial loss on the target; the step is along w, the vector closest to g_t that lets neither the
source's nor the memories' cross-entropy rise (Eq. 11). D, which is not a part of the model, has no constraint. What ADDA is
in a continual setting stands in `adversarial`.
"""

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.batches import Batch, Pool
from adaptd.learning.grcl import Part, Sums, divide_and_project
from adaptd.learning.methods.adversarial import Adda, inverted_losses
from adaptd.learning.methods.base import Update
from adaptd.learning.methods.foundation import adaptation_pools
from adaptd.learning.methods.options import GraOptions
from adaptd.learning.stepper import NotFinite, Stepper


class Gra(Adda[GraOptions]):
    """ADDA's gradient under constraints from the source (Eq. 5-7) and from memories, pooled (Eq. 9) or one for each (Eq. 8)."""

    stepper: Stepper

    def choose_pools(self) -> tuple[Pool, ...]:
        """A pool for each memory where each has its own constraint."""
        return adaptation_pools(self.data, self.plan, per_domain=self.options.constraints == "per-domain")

    def build(self) -> None:
        """ADDA's networks; a row for g_t, which is the target's, and one for each constraint."""
        super().build()
        self._constraints = [pool.name for pool in self.pools[:-1]]
        self.stepper = self.train("encoder", "classifier", rows=len(self.pools))

    def update(self, batch: Batch) -> Update:
        """w, the projected gradient; D's beside it."""
        sums, features = self._accumulate(batch)
        discriminator = self.teach_discriminator(batch.parts[0].images, features)
        self.stepper.reduce(sums.counts, sums.losses)
        step = divide_and_project(self.stepper, sums)
        if step is None:
            raise NotFinite
        names = ["adversarial", *self._constraints]
        return Update(
            losses={**dict(zip(names, step.losses, strict=True)), "discriminator": discriminator},
            norms=dict(zip(names, step.norms, strict=True)),
            multipliers=dict(zip(self._constraints, step.projection.multipliers, strict=True)),
        )

    def _accumulate(self, batch: Batch) -> tuple[Sums, Tensor]:
        """Gradients summed over the samples: g_t in row 0, each constraint's in its own; and the target's features."""
        counts, losses = torch.zeros(2, len(self.pools), dtype=torch.float64)
        rows = {name: number for number, name in enumerate(self._constraints, 1)}
        parts = [Part(part.images, part.rows, part.labels, rows.get(part.name, 0)) for part in batch.parts]
        seen = []
        for part in (piece for whole in parts for piece in whole.pieces()):
            features = self.model.encode(part.images)
            if part.labels is None:
                loss = inverted_losses(self.discriminator(features)).sum()
                seen.append(features.detach())
            else:
                loss = functional.cross_entropy(self.model.classify(features), part.labels, reduction="sum")
            self.stepper.backward(loss, part.constraint)
            counts[part.constraint] += len(part.rows)
            losses[part.constraint] += loss.item()
        return Sums(counts, losses, []), torch.cat(seen)
