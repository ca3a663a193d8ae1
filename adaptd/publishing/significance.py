"""Whether a loss is more than chance: two tests for shares of images. What may be lost is the gate's to say."""

from math import exp, fsum, lgamma, log, log1p, sqrt
from statistics import NormalDist


def stands_out(before: tuple[float, int], after: tuple[float, int], level: float) -> bool:
    """Whether the first of two shares, each with its number of images, is larger by more than their sampling error.

    With one right and one wrong image added to each (Agresti and Caffo): a share of 1 on twenty images is not without error.
    """
    shares = [((share * n + 1) / (n + 2), n + 2) for share, n in (before, after)]
    error = sqrt(sum(share * (1 - share) / n for share, n in shares))
    return shares[0][0] - shares[1][0] > NormalDist().inv_cdf(1 - level) * error


def binomial_tail(n: int, p: float, k: int) -> float:
    """P[X ≥ k] for X of n with chance p; in logarithms, since thousands of images leave the range of floats."""
    if k <= 0 or p in {0, 1}:
        return 1.0 if k <= 0 else p
    full = lgamma(n + 1) + n * log1p(-p)
    odds = log(p) - log1p(-p)
    return min(1.0, fsum(exp(full - lgamma(i + 1) - lgamma(n - i + 1) + i * odds) for i in range(k, n + 1)))


def find_change(negative: int, positive: int, level: float = 0.05) -> int:
    """Whether images that went wrong and images that came right are more than chance apart: 1 better, -1 worse, 0 unclear.

    A two-sided sign test (McNemar).
    """
    if binomial_tail(negative + positive, 0.5, max(negative, positive)) > level / 2:
        return 0
    return 1 if positive > negative else -1
