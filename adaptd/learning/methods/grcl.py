"""GRCL, and Crt.+SDC of its ablation: the contrastive gradient, projected so that no constraint's loss rises."""

from adaptd.learning.batches import Batch, EpisodeData, Pool
from adaptd.learning.grcl import Part, grcl_step
from adaptd.learning.methods.foundation import MEMORY, SOURCE, Contrastive, adaptation_pools
from adaptd.learning.methods.protocol import Trainee, Update
from adaptd.learning.plan import Plan


class Grcl(Contrastive):
    """Constraints from the source and from memories, pooled (Eq. 6) or one for each past domain (Eq. 6-0).

    Without `memory_constraint` it is Crt.+SDC: memories take part in the contrastive loss, their pseudo-labels in nothing.
    """

    _constraints: list[str]

    def __init__(self, name: str, *, memory_constraint: bool = True) -> None:
        super().__init__(name)
        self._memory_constraint = memory_constraint

    def pools(self, data: EpisodeData, plan: Plan) -> tuple[Pool, ...]:
        """A pool for each memory where each has its own constraint."""
        per_domain = self._memory_constraint and plan.method.constraints == "per-domain"
        return adaptation_pools(data, plan, per_domain=per_domain)

    def gradient_rows(self, pools: tuple[Pool, ...]) -> int:
        """One for g_t and one for each constraint."""
        return 1 + len(self._constrained(pools))

    def prepare(self, trainee: Trainee, pools: tuple[Pool, ...], plan: Plan) -> None:
        """Number the constraints."""
        super().prepare(trainee, pools, plan)
        self._constraints = self._constrained(pools)

    def _constrained(self, pools: tuple[Pool, ...]) -> list[str]:
        constraining = (SOURCE, MEMORY) if self._memory_constraint else (SOURCE,)
        return [pool.name for pool in pools if pool.name.startswith(constraining)]

    def update(self, batch: Batch) -> Update | None:
        """w, the projected gradient."""
        row = {name: number for number, name in enumerate(self._constraints, 1)}
        parts = [Part(part.images, part.rows, part.labels, row.get(part.name, 0)) for part in batch.parts]
        step = grcl_step(self.trainee.model, self.trainee.flat, parts, self.contrast(batch))
        if step is None:
            return None
        names = ["contrastive", *self._constraints]
        return Update(
            losses=dict(zip(names, step.losses, strict=True)),
            norms=dict(zip(names, step.norms, strict=True)),
            multipliers=dict(zip(self._constraints, step.projection.multipliers, strict=True)),
        )
