"""Which images of a domain become its memory M_t. Their pixels are kept elsewhere."""

from dataclasses import dataclass

import torch
from torch import Tensor

from adaptd.learning.grcl.pseudo_labels import PseudoLabels


@dataclass(frozen=True, slots=True)
class MemorySelection:
    """The images to keep, most confident first; row i of each tensor belongs to the same image."""

    ids: Tensor
    labels: Tensor
    confidence: Tensor

    def __len__(self) -> int:
        return len(self.ids)


def select_memory(ids: Tensor, pseudo: PseudoLabels, quota: int, per_class_cap: int = 0) -> MemorySelection:
    """The `quota` most confident images, all of them if there are fewer; ties go to the smaller id.

    Args:
        ids: [n] image ids, in the order of the features that were clustered.
        pseudo: their classes and confidences.
        quota: how many to keep.
        per_class_cap: keep at most this many of a class; 0: no cap.
    """
    by_id = ids.argsort()
    order = by_id[pseudo.confidence[by_id].argsort(descending=True, stable=True)]
    if per_class_cap:
        order = order[rank_in_class(pseudo.labels[order]) < per_class_cap]
    kept = order[:quota]
    return MemorySelection(ids[kept], pseudo.labels[kept], pseudo.confidence[kept])


def class_ranks(labels: Tensor, confidence: Tensor) -> Tensor:
    """How many images of the same class are surer, [n]; ties go to the earlier row."""
    order = confidence.argsort(descending=True, stable=True)
    ranks = torch.empty_like(labels)
    ranks[order] = rank_in_class(labels[order])
    return ranks


def rank_in_class(labels: Tensor) -> Tensor:
    """How many earlier entries have the same label, [n]."""
    by_class = labels.argsort(stable=True)
    sizes = torch.bincount(labels)
    first = sizes.cumsum(0) - sizes
    rank = torch.empty_like(labels)
    rank[by_class] = torch.arange(len(labels)) - first[labels[by_class]]
    return rank
