"""The unified contrastive loss (Eq. 4). Where keys come from is the bank's business."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.grcl.bank import Bank


@dataclass(frozen=True, slots=True)
class Contrast:
    """What the samples of one step are compared with.

    Args:
        bank: the keys; they carry no gradient.
        negatives: [K] rows of the bank that serve as k⁻ for every sample.
        temperature: τ.
    """

    bank: Bank
    negatives: Tensor
    temperature: float


def contrastive_loss(z: Tensor, rows: Tensor, contrast: Contrast) -> Tensor:
    """L_q summed over the samples, so that the losses and gradients of a batch's parts add up.

    Args:
        z: [n, d] unit vectors q = q_t(f_t(aug(x))).
        rows: [n] the images' rows in the bank: k⁺ is x's own entry, and x among the negatives is masked out.
        contrast: what they are compared with.
    """
    keys = contrast.bank.keys
    positive = (z * keys[rows]).sum(dim=1, keepdim=True)  # q·k⁺  [n, 1]
    negative = z @ keys[contrast.negatives].T  # q·k⁻  [n, K]
    itself = rows[:, None] == contrast.negatives[None, :]
    logits = torch.cat([positive, negative.masked_fill(itself, -torch.inf)], dim=1) / contrast.temperature
    return functional.cross_entropy(logits, logits.new_zeros(len(z), dtype=torch.long), reduction="sum")
