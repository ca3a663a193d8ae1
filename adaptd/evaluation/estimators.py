"""Accuracy without labels, from a model's own confidence. It assumes that confidence means the same in both domains.

After self-training it does not: a model is sure of what it has taught itself. What others say of it is in `agreement`.
"""

import numpy as np
from numpy.typing import NDArray


def confidence(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """The largest softmax probability of each row."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    best: NDArray[np.float64] = shifted.max(axis=1) / shifted.sum(axis=1)
    return best


def estimate_accuracy(
    source_logits: NDArray[np.float32], source_labels: NDArray[np.int64], target_logits: NDArray[np.float32]
) -> float:
    """The share of target images above the confidence that splits the source test set at its accuracy.

    Average thresholded confidence, ATC (Garg et al., 2022).
    The threshold c satisfies |{source: confidence > c}| = number of right answers on the source.
    """
    right = int((source_logits.argmax(axis=1) == source_labels).sum())
    if right == 0:
        return 0.0
    threshold = np.sort(confidence(source_logits))[::-1][right - 1]
    return float((confidence(target_logits) >= threshold).mean())
