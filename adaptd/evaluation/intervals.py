"""How sure a measured accuracy is. Estimates have no interval here: their error is not one of sampling."""

from math import sqrt
from statistics import NormalDist


def wilson(correct: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for `correct` of `n`: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n).

    It stays within 0 … 1 and keeps its level for few images and for accuracies near 1, where the usual p ± z·se fails.
    """
    if not 0 <= correct <= n or n == 0:
        raise ValueError(f"{correct} correct of {n} is not a measurement")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p = correct / n
    middle = p + z * z / (2 * n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # Rounding may leave 0 and 1 by an ulp; p itself must stay inside.
    return min(p, max(0.0, (middle - half) / scale)), max(p, min(1.0, (middle + half) / scale))
