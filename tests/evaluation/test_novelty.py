"""Whether a drop is new, on distributions that are known."""

import numpy as np
import pytest

from adaptd.evaluation.novelty import Distance, Verdict, correct_level, decide, decide_copied, find_nearest, measure_distance
from adaptd.evaluation.shift import View, compare_features, compare_outputs, ks_distance, ks_probability, rank_auc

CLASSES = ("a", "b", "c")


def draw(n: int, seed: int, shift: float = 0.0, shares=(1 / 3, 1 / 3, 1 / 3)) -> View:
    """Images of three classes: features around a centre for each, logits that name it; a shift moves the features alone."""
    chance = np.random.default_rng(seed)
    labels = chance.choice(3, n, p=shares)
    features = chance.normal(size=(n, 40)) + 3 * np.eye(40)[labels]
    logits = features[:, :3] + chance.normal(scale=0.3, size=(n, 3))
    features[:, 20:] += shift
    return View(features.astype(np.float32), logits.astype(np.float32))


def measure(drop: View, reference: View, level: float = 0.001, seed: int = 0) -> Distance:
    """Against a domain named known."""
    return measure_distance("known", drop, reference, CLASSES, level, seed)


def test_kolmogorov_smirnov():
    """The distance on samples that can be counted; the probability at the critical values of every table."""
    assert ks_distance(np.array([1.0, 2, 3, 4]), np.array([3.0, 4, 5, 6])) == 0.5
    assert ks_distance(np.array([1.0, 1, 1]), np.array([1.0, 1])) == 0
    for z, p in ((1.2238, 0.1), (1.3581, 0.05), (1.6276, 0.01)):
        assert ks_probability(z / np.sqrt(50_000), 100_000, 100_000) == pytest.approx(p, rel=0.01)
    assert (ks_probability(0.0, 50, 50), ks_probability(1.0, 50, 50) < 1e-10) == (1.0, True)


def test_auc_counts_pairs():
    """Ties count half."""
    assert rank_auc(np.array([2.0, 3.0]), np.array([1.0, 2.0])) == 0.875
    assert rank_auc(np.ones(4), np.ones(3)) == 0.5


def test_what_is_alike_is_rarely_told_apart():
    """Both tests keep their level where nothing differs; over many draws, next to none is called new."""
    pairs = [(draw(60, seed), draw(240, 1000 + seed)) for seed in range(16)]
    outputs = [compare_outputs(drop, reference).p for drop, reference in pairs]
    features = [compare_features(drop, reference, 0).p for drop, reference in pairs]
    assert sum(p < 0.1 for p in outputs) <= 4
    assert sum(p < 0.1 for p in features) <= 4
    assert sum(p > 0.5 for p in features) >= 4
    assert min(*outputs, *features) > 0.001


@pytest.mark.parametrize("n", [50, 400])
def test_a_shift_of_the_features_is_found(n):
    """Even where the outputs are as ever, and there are no more than 50 images."""
    found = measure(draw(n, 1, shift=0.6), draw(400, 2))
    assert found.told_apart
    assert (found.auc > 0.85, found.usual_auc < 0.6) == (True, True)
    assert found.outputs_p > 0.001


def test_a_shift_of_the_classes_is_found_and_named():
    """A drop with other shares of the classes is not what the known domain brings."""
    found = measure(draw(200, 1, shares=(0.8, 0.1, 0.1)), draw(400, 2))
    assert found.told_apart
    assert found.outputs_p < 0.001
    assert found.shifted_class == "a"


def test_a_difference_that_does_not_matter_is_tolerated():
    """With thousands of images chance does not explain it; it is small nevertheless."""
    found = measure(draw(1500, 1, shift=0.06), draw(3000, 2))
    assert found.features_p < 0.001
    assert (found.auc < 0.6, found.told_apart) == (True, False)


def test_the_same_seed_gives_the_same_distance():
    """A resumed episode says what it said before."""
    drop, reference = draw(60, 1), draw(200, 2)
    assert measure(drop, reference) == measure(drop, reference)


def test_the_nearest_images_of_a_domain_count():
    """A copy of what a model learned from is known, though held-out images look less sure; too few images are no reference."""
    held_out, learned = draw(150, 1, shift=0.3), draw(150, 2)
    drop = draw(100, 3)
    assert measure(drop, held_out).told_apart
    found = find_nearest([draw(20, 4), held_out, learned], lambda images: measure(drop, images))
    assert found is not None
    assert not found.told_apart
    assert find_nearest([draw(20, 4)], lambda images: measure(drop, images)) is None


def test_the_level_falls_with_drops_and_domains():
    """Bonferroni, over two tests, all drops and all known domains."""
    assert correct_level(1, 1) == 0.005
    assert correct_level(10, 5) == pytest.approx(0.0001)


def distance(domain: str, auc: float, *, told_apart: bool) -> Distance:
    """A distance as it might be."""
    return Distance(domain, 500, auc, 0.5, 0.1, "a", 0.1, 0.5, told_apart)


def test_verdicts():
    """Known as the nearest that it cannot be told from; new where there is none; and what cannot be told is said to be so."""
    far, near = distance("night", 0.97, told_apart=True), distance("source", 0.52, told_apart=False)
    known = decide("copy", 500, [far, near], 0.005)
    assert (known.verdict, known.known_as, known.distances[0]) == (Verdict.KNOWN, "source", near)
    assert "cannot be told from those of source (AUC 0.52" in known.message
    new = decide("fog", 500, [far], 0.005)
    assert (new.verdict, new.known_as) == (Verdict.NEW, None)
    assert "night is the nearest" in new.message
    for few in (decide("fog", 49, [near], 0.005), decide("fog", 500, [], 0.005)):
        assert (few.verdict, few.known_as) == (Verdict.TOO_FEW, None)
        assert "too few" in few.message


def test_a_copy_is_known_without_a_test():
    """Where known domains have all of its images, together or one of them alone; not where one image is missing."""
    shared = {"source": frozenset("ab"), "night": frozenset("bcd"), "fog": frozenset()}
    found = decide_copied("copy", 4, shared, 0.005)
    assert (found.verdict, found.copied, found.known_as) == (Verdict.KNOWN, True, "night")
    assert found.message == "copy is no new domain: every image of it is in night, source already"
    assert decide_copied("copy", 3, shared | {"source": frozenset("b")}, 0.005).message.endswith("is in night already")
    assert decide_copied("copy", 5, shared, 0.005) is None
    assert decide_copied("copy", 0, {}, 0.005) is None
