"""The feature bank B_t: one unit vector k(x) for every image x of D_0, M and D_t. Encoding images happens elsewhere."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


class Bank:
    """Keys k(x) as rows; an image is known here by its row. Keys carry no gradient.

    Args:
        keys: [n, d], q_{t-1}(f_{t-1}(x)) of every image (Eq. 2); normalised here.
        momentum: m, how much of a key stays in an update (Eq. 3).
    """

    def __init__(self, keys: Tensor, momentum: float) -> None:
        self.keys = functional.normalize(keys.detach(), dim=1)  # ‖k(x)‖ = 1
        self.momentum = momentum

    def __len__(self) -> int:
        return len(self.keys)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Rows of `count` different entries to serve as negatives; all of them if the bank is smaller."""
        return torch.randperm(len(self.keys), generator=generator)[:count].to(self.keys.device)

    def update(self, rows: Sequence[Tensor], z: Sequence[Tensor]) -> None:
        """k(x) ← normalise(m·k(x) + (1 - m)·z) for the images of a batch (Eq. 3). No row may come twice."""
        index, encoded = torch.cat(list(rows)), torch.cat(list(z))
        old = self.keys[index]
        moved = torch.lerp(encoded, old, self.momentum)
        # z = -k with m = ½ meets in the origin, which has no direction: such a key stays where it is.
        length = moved.norm(dim=1, keepdim=True)
        self.keys[index] = torch.where(length > 0, moved / length, old)
