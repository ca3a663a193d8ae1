"""A domain beside the source: what is refused, and in which words."""

from dataclasses import replace

import pytest

from adaptd.errors import DomainNotRecognised
from adaptd.learning.health import Health
from adaptd.learning.trust import check_recognised, compare

HOME = Health(1000, 0.9, 1.0, 10, 0.12, 0.6, 0.95, 0.98)
SETTING = "method.guarded.min_agreement"


def check(least: float = 0.4, single: float = 0.05, **seen: float) -> float:
    """The recognition of a domain that is as the source but for what is named, if it is not refused."""
    trust = compare(replace(HOME, **seen), HOME, single, "giraffe")
    check_recognised(trust, least, SETTING)
    return trust.recognition


def test_the_source_itself_is_recognised_in_full():
    """1 for the source, no more for a domain that is even easier, 0 for what is like one of its classes."""
    assert check() == pytest.approx(1.0)
    assert check(agreement=1.0, confidence=1.0) == pytest.approx(1.0)
    assert check(least=0.0, agreement=0.9 * 0.05) == pytest.approx(0.0, abs=1e-9)


def test_a_hard_but_honest_domain_is_learned_from():
    """Half the source's agreement, with every class predicted and little confidence."""
    assert check(agreement=0.47, balance=0.9, confidence=0.45) > 0.4


def test_one_class_alone_is_refused_as_that():
    """Predictions skewed, features close together, the model sure: the sentence names the class, the share and the way out."""
    with pytest.raises(DomainNotRecognised, match=r"look like one class alone.*98% .* taken for giraffe.*adaptd labels template"):
        check(agreement=0.1, balance=0.04, largest=0.98, spread=0.2)


def test_few_images_of_one_class_are_refused_whatever_agrees():
    """Among 60 images clusters follow the predictions: full agreement says nothing. Among 1,000 it does."""
    skewed = {"agreement": 0.9, "balance": 0.45, "largest": 0.8, "spread": 0.35}
    with pytest.raises(DomainNotRecognised, match="one class alone"):
        check(images=60, **skewed)
    assert check(**skewed) > 0.4


def test_strangers_are_refused_with_the_setting():
    """Little agreement, unsure: not one class, but nothing that the model knows."""
    with pytest.raises(
        DomainNotRecognised, match=rf"does not recognise these images: recognition 0\.1\d, {SETTING} asks for 0\.4"
    ):
        check(agreement=0.2, balance=0.8, confidence=0.4)
    assert check(least=0.0, agreement=0.2) < 0.4, "0 switches it off"


def test_images_that_are_all_alike_are_refused():
    """Noise: whatever is agreed on, nothing in it differs to the model."""
    with pytest.raises(DomainNotRecognised):
        check(agreement=0.8, balance=0.7, spread=0.06)


def test_a_domain_that_is_too_hard_is_told_from_strangers():
    """Every class is predicted, few are agreed on: the words leave open what it is, and ask for labels."""
    with pytest.raises(
        DomainNotRecognised, match=r"hardly recognises these images.*sees all its classes.*adaptd labels template"
    ):
        check(agreement=0.3, balance=0.95, confidence=0.6)


def test_a_weak_model_asks_for_more():
    """Where single classes of the source look much like the source, a domain must be more like it to be told from them."""
    assert check(single=0.02, agreement=0.45) > 0.4
    with pytest.raises(DomainNotRecognised):
        check(single=0.4, agreement=0.45)
    assert check(single=0.4, agreement=0.8) > 0.4


def test_a_source_without_agreement_divides_by_no_zero():
    """A model that is at home nowhere compares with a floor."""
    lost = replace(HOME, agreement=0.0, balance=0.0, spread=0.0, confidence=0.0)
    assert compare(HOME, lost).agreement == 1.0
