"""Whether a model's own labels for a domain can be learned from. What is learned from them is a method's business."""

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.errors import DomainNotRecognised


def kappa(first: Tensor, second: Tensor, classes: int) -> float:
    """Cohen's κ of two labellings: 1 where they agree on every image, 0 where they agree as often as chance would."""
    shares = [functional.one_hot(labels, classes).double().mean(dim=0) for labels in (first, second)]
    agreed, by_chance = (first == second).double().mean().item(), torch.dot(*shares).item()
    return (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


def check_recognised(found: float, least: float, setting: str) -> None:
    """Refuse a domain on which the classifier and the clusters of its features disagree.

    Noise, pictures of something else, or of one class alone: the features do not fall into the classes that the classifier
    names. Labels taken from there would teach the model its own mistakes.

    Args:
        found: their κ.
        least: the least allowed.
        setting: where that is set.

    Raises:
        DomainNotRecognised: their κ is less than the least allowed.
    """
    if found < least:
        raise DomainNotRecognised(
            f"the model does not recognise these images: its classes and the clusters of its features agree by {found:.2f} "
            f"beyond chance, and {setting} asks for {least:g}. Look whether the folder holds what the classes are "
            f"made of; if it does, lower {setting} and `adaptd retry` it"
        )
