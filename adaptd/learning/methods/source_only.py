"""Src. of the ablation: the source model meets every domain unchanged."""

from torch import Tensor

from adaptd.learning.batches import Batch, EpisodeData, Pool
from adaptd.learning.grcl import MemorySelection
from adaptd.learning.methods.foundation import remember
from adaptd.learning.methods.protocol import Trainee, Update
from adaptd.learning.plan import Plan
from adaptd.learning.survey import Surveys
from adaptd.project.settings import MemorySettings


class SourceOnly:
    """No step at all. The domain is remembered all the same, for a method that may follow."""

    name = "source-only"
    trains_statistics = False
    settled = False

    def pools(self, data: EpisodeData, plan: Plan) -> tuple[Pool, ...]:  # noqa: ARG002  # the protocol's
        """No batches."""
        return ()

    def gradient_rows(self, pools: tuple[Pool, ...]) -> int:  # noqa: ARG002  # the protocol's
        """No gradients."""
        return 0

    def prepare(self, trainee: Trainee, pools: tuple[Pool, ...], plan: Plan) -> None:
        """Nothing to build."""

    def begin(self, surveys: Surveys) -> None:
        """Nothing to fill."""

    def update(self, batch: Batch) -> Update | None:
        """There are no steps."""
        raise AssertionError(f"source-only takes no steps, yet was given step {batch.step}")

    def remember(self, surveys: Surveys, data: EpisodeData, quota: MemorySettings) -> MemorySelection | None:
        """The target's most confident images."""
        return remember(surveys, data, quota)

    def tensors(self) -> dict[str, Tensor]:
        """Nothing of its own."""
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Nothing of its own."""
