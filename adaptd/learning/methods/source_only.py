"""Src. of the ablation: the source model meets every domain unchanged."""

from adaptd.learning.batches import Pool
from adaptd.learning.methods.base import Method
from adaptd.learning.methods.options import NoOptions


class SourceOnly(Method[NoOptions]):
    """No step at all. The domain is remembered all the same, for a method that may follow."""

    def choose_pools(self) -> tuple[Pool, ...]:
        """No batches."""
        return ()
