"""GRCL, and Crt.+SDC of its ablation: the contrastive gradient, projected so that no constraint's loss rises (Eq. 11)."""

from typing import ClassVar, TypeVar

from adaptd.learning.batches import Batch, Pool
from adaptd.learning.grcl import Part, accumulate, divide_and_project
from adaptd.learning.methods.base import Update
from adaptd.learning.methods.contrastive import Contrastive
from adaptd.learning.methods.foundation import MEMORY, SOURCE, adaptation_pools
from adaptd.learning.methods.options import ContrastiveOptions, ContrastiveSdcOptions, GrclOptions
from adaptd.learning.parameters import GROUPS
from adaptd.learning.stepper import NotFinite, Stepper

Options = TypeVar("Options", bound=ContrastiveOptions)


class Constrained(Contrastive[Options]):
    """The contrastive gradient under a cross-entropy constraint for each of some pools."""

    constraining: ClassVar[tuple[str, ...]]
    """Pools that constrain, by how their names begin."""

    stepper: Stepper

    def build(self) -> None:
        """A row for g_t and one for each constraint, over the whole classifier."""
        self._constraints = [pool.name for pool in self.pools if pool.name.startswith(self.constraining)]
        self.stepper = self.train(*GROUPS, rows=1 + len(self._constraints))

    def update(self, batch: Batch) -> Update:
        """w, the projected gradient."""
        row = {name: number for number, name in enumerate(self._constraints, 1)}
        parts = [Part(part.images, part.rows, part.labels, row.get(part.name, 0)) for part in batch.parts]
        sums = accumulate(self.model, self.stepper, parts, self.contrast(batch))
        self.stepper.reduce(sums.counts, sums.losses)
        step = divide_and_project(self.stepper, sums)
        if step is None:
            raise NotFinite
        self.z = sums.z
        names = ["contrastive", *self._constraints]
        return Update(
            losses=dict(zip(names, step.losses, strict=True)),
            norms=dict(zip(names, step.norms, strict=True)),
            multipliers=dict(zip(self._constraints, step.projection.multipliers, strict=True)),
        )


class Grcl(Constrained[GrclOptions]):
    """Constraints from the source (Eq. 5-7) and from memories, pooled (Eq. 9) or one for each past domain (Eq. 8)."""

    constraining = (SOURCE, MEMORY)

    def choose_pools(self) -> tuple[Pool, ...]:
        """A pool for each memory where each has its own constraint."""
        return adaptation_pools(self.data, self.plan, per_domain=self.options.constraints == "per-domain")


class ContrastiveSdc(Constrained[ContrastiveSdcOptions]):
    """Crt.+SDC: memories take part in the contrastive loss, their pseudo-labels in nothing."""

    constraining = (SOURCE,)
