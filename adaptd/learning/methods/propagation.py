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
        features: [n, d]; between neighbours the angle is small. May be a memory map, of which some rows at a time are read.
        probabilities: [n, classes] to begin with.
        generator: picks the landmarks, where there are more images.
    """
    if len(features) < 2:
        return probabilities
    graph = _connect(features, generator)
    heard = own = probabilities.double()
    for _ in range(ROUNDS):
        heard = graph.listen(heard).mul_(TRUST).add_(own, alpha=1 - TRUST)
    return heard.div_(heard.sum(dim=1, keepdim=True)).to(probabilities.dtype)


class _Graph:
    """Who listens to whom, both ways, scaled so that nobody with many friends drowns the others.

    Args:
        landmarks: rows of the images that can be neighbours.
        near: which of these each image's neighbours are, int32 [n, neighbours].
        cosines: to them, float32 [n, neighbours].
    """

    def __init__(self, landmarks: Tensor, near: Tensor, cosines: Tensor) -> None:
        self._landmarks, self._near, self._cosines = landmarks, near, cosines
        self._scale = torch.ones(len(near), 1, dtype=torch.float64)
        self._scale = self.listen(self._scale).rsqrt_()

    def listen(self, said: Tensor) -> Tensor:
        """What each image hears, [n, classes], of what all of them say."""
        said = said * self._scale
        heard, classes = torch.empty_like(said), said.shape[1]
        of_landmarks, by_landmarks = said[self._landmarks], said.new_zeros(len(self._landmarks), classes)
        for start in range(0, len(said), _ROWS):
            rows = slice(start, start + _ROWS)
            near, weight = self._near[rows].long(), self._cosines[rows].double().clamp_min(1e-3).pow(3)[:, :, None]
            heard[rows] = (weight * of_landmarks[near]).sum(dim=1)
            told = (weight * said[rows][:, None]).view(-1, classes)
            by_landmarks.scatter_add_(0, near.view(-1, 1).expand(-1, classes), told)
        heard[self._landmarks] += by_landmarks
        return heard.mul_(self._scale)


def _connect(features: Tensor, generator: torch.Generator) -> _Graph:
    """Look for the neighbours of each image among the landmarks."""
    total = len(features)
    landmarks = (
        torch.arange(total) if total <= LANDMARKS else torch.randperm(total, generator=generator)[:LANDMARKS].sort().values
    )
    count = min(NEIGHBOURS, len(landmarks) - 1)
    near, cosines = torch.empty(total, count, dtype=torch.int32), torch.empty(total, count)
    known = torch.cat([_normalise(features[rows]) for rows in torch.split(landmarks, _ROWS)])
    for start in range(0, total, _ROWS):
        rows = torch.arange(start, min(start + _ROWS, total))
        similarity = _normalise(features[start : start + _ROWS]) @ known.T
        best = similarity.masked_fill_(rows[:, None] == landmarks, -1.0).topk(count, dim=1)
        near[rows], cosines[rows] = best.indices.int(), best.values
    return _Graph(landmarks, near, cosines)


def _normalise(features: Tensor) -> Tensor:
    return functional.normalize(features.double(), dim=1).float()
