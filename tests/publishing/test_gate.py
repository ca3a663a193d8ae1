"""The gate's decisions, from predictions alone."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from adaptd.project.settings import GateSettings
from adaptd.publishing.gate import Best, Comparison, judge
from adaptd.publishing.significance import binomial_tail

CLASSES = ("cat", "dog", "owl")
SETTINGS = GateSettings()


def labels(n: int) -> np.ndarray:
    """Classes in turn."""
    return np.arange(n) % 3


def wrong(predictions: np.ndarray, rows) -> np.ndarray:
    """The same predictions with other classes in some rows."""
    changed = predictions.copy()
    changed[rows] = (changed[rows] + 1) % 3
    return changed


def on_test(domain: str, before: np.ndarray, after: np.ndarray, truth: np.ndarray) -> Comparison:
    """A comparison on labelled images."""
    return Comparison(domain, "test", after, before, truth)


def steady(n: int = 300) -> Comparison:
    """A source on which nothing changes."""
    truth = labels(n)
    return on_test("source", truth, truth, truth)


def test_the_first_version_passes():
    """With nothing promoted, the gate says so and lets the candidate through."""
    outcome = judge([Comparison("source", "test", labels(30))], SETTINGS, CLASSES)
    assert outcome.passed
    assert outcome.reasons == ("It is the first version: nothing was promoted before.",)


@pytest.mark.parametrize("promoted", [None, labels(30)])
def test_answers_that_are_no_numbers_never_pass(promoted):
    """NaN or infinity on one image is enough, also for a first version."""
    outcome = judge([Comparison("source", "test", labels(30), promoted, labels(30), nonfinite=1)], SETTINGS, CLASSES)
    assert not outcome.passed
    assert outcome.reasons == ("On the source, the candidate answers NaN or infinity to 1 of 30 images.",)


def test_a_loss_on_the_source_is_rejected_with_figures():
    """3 % of a thousand images, where 1 % is allowed."""
    truth = labels(1000)
    outcome = judge([on_test("source", truth, wrong(truth, slice(0, 30)), truth)], SETTINGS, CLASSES)
    assert not outcome.passed
    assert outcome.reasons == (
        "On the source, measured accuracy went from 100.0% to 97.0% on 1,000 images: a loss of 3 points, allowed: 1 point.",
    )
    expected = {"n": 1000, "promoted": 1.0, "candidate": 0.97, "negative_flips": 30, "positive_flips": 0, "nonfinite": 0}
    assert outcome.figures == {"source (test)": expected}


@pytest.mark.parametrize(
    ("n", "flipped", "why"),
    [
        (56, 2, "96.4% on 56 images: within chance (allowed: 1 point)."),
        (1000, 4, "99.6% on 1,000 images: a loss of 0.4 points (allowed: 1 point)."),
        (1000, 0, "100.0% on 1,000 images: no loss."),
    ],
)
def test_why_it_passed_is_said(n, flipped, why):
    """A loss that may be chance is told apart from one that is allowed."""
    truth = labels(n)
    outcome = judge([on_test("source", truth, wrong(truth, slice(0, flipped)), truth)], SETTINGS, CLASSES)
    assert (outcome.passed, outcome.reasons) == (True, (f"On the source, measured accuracy went from 100.0% to {why}",))


@pytest.mark.parametrize(("flipped", "passed"), [(9, True), (30, False)])
def test_old_domains_have_their_own_tolerance(flipped, passed):
    """Within 2 % of an old domain a candidate passes, beyond it does not, and the reasons say how it stands."""
    truth = labels(500)
    outcome = judge([steady(), on_test("camera-7", truth, wrong(truth, slice(0, flipped)), truth)], SETTINGS, CLASSES)
    assert outcome.passed is passed
    assert any("domain camera-7" in reason and "500 images" in reason for reason in outcome.reasons)


def test_a_small_test_set_does_not_decide_by_two_images():
    """Two of twenty images are 10 %, and yet no evidence; eight are."""
    truth = labels(20)
    for flipped, passed in ((2, True), (8, False)):
        comparison = on_test("source", truth, wrong(truth, slice(0, flipped)), truth)
        assert judge([comparison], SETTINGS, CLASSES).passed is passed


def test_unlabelled_domains_need_memory_and_estimate():
    """A clear loss in either of the two rejects the candidate."""
    truth = labels(400)
    bad, good = wrong(truth, slice(0, 60)), truth
    for memory, estimates in product((good, bad), ((0.9, 0.9), (0.9, 0.7))):
        comparisons = [
            steady(),
            Comparison("camera-7", "memory", memory, truth, truth),
            Comparison("camera-7", "estimate", good, truth, estimates=estimates),
        ]
        outcome = judge(comparisons, SETTINGS, CLASSES)
        assert outcome.passed is (memory is good and estimates[1] == 0.9)
        assert ("agreement with its memory" in " ".join(outcome.reasons)) is (memory is bad or outcome.passed)


def test_a_pessimistic_estimate_that_falls_holds_a_candidate():
    """Both ways on are told; estimates that are ignored let it pass; and a measured loss speaks for itself."""
    truth = labels(400)
    worse = Comparison("camera-7", "check", wrong(truth, slice(0, 60)), truth, truth)
    held = judge([steady(), worse], SETTINGS, CLASSES, number=4)
    assert not held.passed
    assert "agreement with the check models, the pessimistic estimate, went from 100.0% to 85.0% on 400 images" in held.reasons[0]
    assert "`adaptd promote 4`" in held.reasons[0]
    assert "`adaptd labels template camera-7`" in held.reasons[0]
    assert judge([steady(), worse], GateSettings(estimates="ignore"), CLASSES).passed
    lost = judge([on_test("source", truth, wrong(truth, slice(0, 60)), truth), worse], SETTINGS, CLASSES, number=4)
    assert not any("adaptd promote" in reason for reason in lost.reasons)


def test_on_the_domain_just_learnt_a_likely_loss_is_enough():
    """27 images went wrong and 15 came right: chance in one of twenty; on few images one or two say nothing."""
    checks = labels(300)
    before, after = wrong(checks, slice(0, 15)), wrong(checks, slice(15, 42))
    for is_new in (False, True):
        assert (
            judge([steady(), Comparison("new", "check", after, before, checks, is_new=is_new)], SETTINGS, CLASSES).passed
            is not is_new
        )
    few = labels(9)
    assert judge([steady(), Comparison("new", "check", wrong(few, slice(0, 2)), few, few, is_new=True)], SETTINGS, CLASSES).passed


def test_whether_adaptation_helped_is_said_only_if_it_is_clear():
    """It decides nothing: the pessimistic estimate does."""
    checks = labels(300)
    said = {}
    for lost, gained in ((0, 30), (30, 0), (10, 12)):
        before, after = wrong(checks, slice(0, gained)), wrong(checks, slice(gained, gained + lost))
        outcome = judge([steady(), Comparison("new", "taught", after, before, checks)], SETTINGS, CLASSES)
        assert outcome.passed
        said[lost, gained] = outcome.reasons[-1].rpartition(": ")[2]
    assert said[0, 30] == "adaptation helped."
    assert said[30, 0] == "adaptation harmed."
    assert said[10, 12] == "whether adaptation helped is unclear."


def test_a_collapse_on_the_new_domain_counts_without_any_label():
    """Also where estimates are ignored; to stop calling nearly everything by one name is no collapse."""
    before = labels(300)
    collapsed = judge(
        [steady(), Comparison("new", "classes", np.zeros_like(before), before)], GateSettings(estimates="ignore"), CLASSES
    )
    assert [reason.partition(", class ")[2][:13] for reason in collapsed.reasons] == ["dog collapsed", "owl collapsed"]
    spread = np.where(np.arange(300) < 250, 0, before)
    assert judge([steady(), Comparison("new", "classes", before, spread)], SETTINGS, CLASSES).passed


def test_a_class_that_vanishes_is_named():
    """Accuracy alone would allow it: the class is rare."""
    truth = np.r_[np.zeros(990, int), np.full(10, 2)]
    settings = GateSettings(max_source_loss=0.05)
    outcome = judge([on_test("source", truth, np.zeros(1000, int), truth)], settings, CLASSES)
    assert outcome.reasons == ("On the source, class owl collapsed: predicted for 0 images, usual: 10.",)


def test_classes_a_domain_never_had_do_not_collapse():
    """A domain of one class, and one where the promoted version saw owls that are none, both pass."""
    only_cats = np.zeros(200, int)
    seeing_owls = np.where(np.arange(200) < 40, 2, 0)
    comparisons = [
        steady(),
        on_test("one", only_cats, only_cats, only_cats),
        on_test("two", seeing_owls, only_cats, only_cats),
    ]
    assert judge(comparisons, SETTINGS, CLASSES).passed


def test_many_flips_are_rejected_even_if_they_cancel_out():
    """As many images got right as went wrong, but those who relied on the wrong ones will complain."""
    truth = labels(600)
    outcome = judge([on_test("source", wrong(truth, slice(0, 120)), wrong(truth, slice(120, 240)), truth)], SETTINGS, CLASSES)
    assert outcome.reasons == ("On the source, 120 of 600 images were right before and are wrong now (20.0%, allowed: 10.0%).",)


def test_small_losses_do_not_add_up_for_ever():
    """Each step loses 0.8 % of a thousand images, which is allowed; with the third it is more than 2 % since the best version."""
    truth, best = labels(1000), {"source": Best(1, 1.0, 1000)}
    passed = []
    for step in range(4):
        before, after = (wrong(truth, slice(0, 8 * (step + lost))) for lost in (0, 1))
        outcome = judge([on_test("source", before, after, truth)], SETTINGS, CLASSES, best)
        passed.append(outcome.passed)
    assert passed == [True, True, False, False]
    (reason,) = outcome.reasons
    assert reason.startswith("On the source, measured accuracy is 96.8% on 1,000 images, and was 100.0% with version 1")
    assert reason.endswith("a loss of 3.2 points since then, allowed: 2 points.")


def test_a_best_version_by_luck_does_not_bind():
    """On twenty images a better version is no evidence; nor is one on another domain, or one compared without labels."""
    truth = labels(20)
    comparison = on_test("source", wrong(truth, slice(0, 2)), wrong(truth, slice(0, 3)), truth)
    assert judge([comparison], SETTINGS, CLASSES, {"source": Best(1, 1.0, 20), "other": Best(1, 1.0, 9999)}).passed
    memory = Comparison("old", "memory", labels(400), labels(400), wrong(labels(400), slice(0, 100)))
    assert judge([steady(), memory], SETTINGS, CLASSES, {"old": Best(1, 1.0, 9999)}).passed


def test_many_domains_do_not_reject_by_luck():
    """Of 40 candidates as good as the promoted version, on 20 domains each, few are rejected."""
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(40):
        comparisons = []
        for number in range(20):
            truth = labels(200)
            before, after = (wrong(truth, rng.random(200) < 0.08) for _ in range(2))
            comparisons.append(on_test(f"d{number}", before, after, truth))
        rejected += not judge(comparisons, SETTINGS, CLASSES).passed
    assert rejected <= 5


predictions = st.lists(st.integers(0, 2), min_size=1, max_size=80).map(np.array)
shares = [name for name, field in GateSettings.model_fields.items() if field.annotation is float]
tolerances = st.builds(GateSettings, **dict.fromkeys(shares, st.floats(0, 1)))


@given(before=predictions, truth=st.integers(0, 2), settings=tolerances, estimate=st.floats(0, 1))
def test_identical_predictions_always_pass(before, truth, settings, estimate):
    """Whatever the tolerances and the labels."""
    answers = (before + truth) % 3
    comparisons = [
        on_test("source", before, before, answers),
        Comparison("old", "memory", before, before, answers),
        Comparison("old", "estimate", before, before, estimates=(estimate, estimate)),
        Comparison("new", "check", before, before, answers),
        Comparison("new", "classes", before, before),
    ]
    assert judge(comparisons, settings, CLASSES).passed


@given(counts=st.tuples(*[st.integers(10, 60)] * 3), survivor=st.integers(0, 2), kind=st.sampled_from(["test", "memory"]))
def test_a_collapsed_candidate_always_fails(counts, survivor, kind):
    """A model that calls everything the same is never promoted."""
    truth = np.repeat(np.arange(3), counts)
    outcome = judge([steady(), Comparison("old", kind, np.full_like(truth, survivor), truth, truth)], SETTINGS, CLASSES)
    assert not outcome.passed
    assert sum("collapsed" in reason for reason in outcome.reasons) == 2


@given(n=st.integers(1, 3000), p=st.floats(0, 1), share=st.floats(0, 1))
def test_the_binomial_tail_is_scipys(n, p, share):
    """The gate's only piece of statistics agrees with an independent one."""
    k = int(share * n)
    assert binomial_tail(n, p, k) == pytest.approx(binom.sf(k - 1, n, p), rel=1e-6, abs=1e-12)


def test_wrong_comparisons_are_refused():
    """Arrays of different images, missing labels, or no source: a mistake of the caller."""
    with pytest.raises(ValueError, match="the same images"):
        Comparison("source", "test", labels(3), labels(4), labels(3))
    with pytest.raises(ValueError, match="needs its labels"):
        Comparison("source", "test", labels(3), labels(3))
    with pytest.raises(ValueError, match="needs the source"):
        judge([], SETTINGS, CLASSES)
