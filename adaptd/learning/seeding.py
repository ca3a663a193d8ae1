"""Random generators by counter: (seed, what for, which one) names a generator, so no random state has to be kept."""

import hashlib

import torch


def seed_for(seed: int, *key: str | int) -> int:
    """A 32-bit seed, well mixed: torch's Mersenne Twister uses no more of it."""
    return int.from_bytes(hashlib.sha256(repr((seed, *key)).encode()).digest()[:4], "big")


def generator(seed: int, *key: str | int) -> torch.Generator:
    """A fresh generator for one purpose, such as `generator(seed, "augment", step)`."""
    return torch.Generator().manual_seed(seed_for(seed, *key))
