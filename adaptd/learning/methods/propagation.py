"""Label propagation: images that look alike to the network should be of one class. First labels come from elsewhere."""

import torch
from torch import Tensor
from torch.nn import functional

NEIGHBOURS, ROUNDS, TRUST = 20, 10, 0.8
"""Each image listens to so many neighbours, in so many rounds, and with this weight instead of to its own label."""

LANDMARKS = 16_384
"""The most images that can be somebody's neighbour: where there are more, a sample of them stands for all."""

_ROWS = 1024


def propagate(features: Tensor, probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """Class probabilities after listening to the neighbours, [n, classes].

    Args:
        features: [n, d]; between neighbours the angle is small.
        probabilities: [n, classes] to begin with.
        generator: picks the landmarks, where there are more images.
    """
    if len(features) < 2:
        return probabilities
    graph = _connect(functional.normalize(features.double(), dim=1), generator)
    heard = own = probabilities.double()
    for _ in range(ROUNDS):
        heard = TRUST * (graph @ heard) + (1 - TRUST) * own
    return (heard / heard.sum(dim=1, keepdim=True)).to(probabilities.dtype)


def _connect(x: Tensor, generator: torch.Generator) -> Tensor:
    """Who listens to whom, [n, n] sparse and symmetric, scaled so that nobody with many friends drowns the others."""
    count = len(x)
    landmarks = (
        torch.arange(count) if count <= LANDMARKS else torch.randperm(count, generator=generator)[:LANDMARKS].sort().values
    )
    near, weight = _find_neighbours(x.float(), landmarks)
    rows = torch.arange(count)[:, None].expand_as(near)
    one_way = torch.sparse_coo_tensor(
        torch.stack([rows.flatten(), near.flatten()]), weight.flatten(), (count, count), check_invariants=True
    )
    both = (one_way + one_way.T).coalesce()
    degree = torch.sparse.sum(both, dim=1).to_dense().rsqrt()
    row, column = both.indices()
    scaled = degree[row] * both.values() * degree[column]
    return torch.sparse_coo_tensor(both.indices(), scaled, (count, count), is_coalesced=True, check_invariants=True)


def _find_neighbours(x: Tensor, landmarks: Tensor) -> tuple[Tensor, Tensor]:
    """For each image the rows of its neighbours, and how much each counts, [n, neighbours]."""
    count = min(NEIGHBOURS, len(landmarks) - 1)
    near, weight = [], []
    for start in range(0, len(x), _ROWS):
        rows = torch.arange(start, min(start + _ROWS, len(x)))
        similarity = (x[rows] @ x[landmarks].T).masked_fill_(rows[:, None] == landmarks, -1.0)
        best = similarity.topk(count, dim=1)
        near.append(landmarks[best.indices])
        weight.append(best.values.double().clamp_min(1e-3) ** 3)
    return torch.cat(near), torch.cat(weight)
