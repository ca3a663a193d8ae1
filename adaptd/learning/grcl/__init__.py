"""The paper and nothing else: bank, loss, projection, memory selection, step. torch and the standard library."""

from adaptd.learning.grcl.bank import Bank
from adaptd.learning.grcl.flat import GradientRows, flatten
from adaptd.learning.grcl.loss import Contrast, contrastive_loss
from adaptd.learning.grcl.memory import MemorySelection, class_ranks, select_memory
from adaptd.learning.grcl.projection import Projection, project
from adaptd.learning.grcl.pseudo_labels import PseudoLabels, class_centroids, pseudo_labels
from adaptd.learning.grcl.step import Network, Part, Step, Sums, accumulate, divide_and_project

__all__ = [
    "Bank",
    "Contrast",
    "GradientRows",
    "MemorySelection",
    "Network",
    "Part",
    "Projection",
    "PseudoLabels",
    "Step",
    "Sums",
    "accumulate",
    "class_centroids",
    "class_ranks",
    "contrastive_loss",
    "divide_and_project",
    "flatten",
    "project",
    "pseudo_labels",
    "select_memory",
]
