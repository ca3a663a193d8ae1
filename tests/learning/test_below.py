"""Activations that are there already: who asks a model about the same images gets its answers without running what is below."""

import numpy as np
import pytest
import torch

from adaptd.evaluation.evaluator import answering, predict, view
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.depth import find_below, make_ready
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan
from adaptd.library.imageset import ImageSet

BATCH = 8


@pytest.fixture(params=["last-stage", "classifier"])
def trained(request, settings, squares, tmp_path):
    """A model that has learned above a cut, what is below it, and its images: held-out ones of the target, then strangers."""
    chosen = settings("resnet18", {"guarded": {"min_agreement": 0.0}}, depth=request.param, epochs=1)
    target, held_out = (squares(count, first, tint=60, labelled=False) for count, first in ((40, 3000), (12, 4000)))
    data = EpisodeData(squares(36, 0), (squares(9, 1000, tint=20),), target, squares(12, 5000), held_out)
    model = build_classifier(chosen.model, seed=1)
    ready = make_ready(model, data, Plan.for_adaptation(chosen, "guarded"), tmp_path / "activations")
    list(Training(ready.model, ready.data, ready.plan))
    strange = squares(11, 9000, labelled=False)
    order = np.random.default_rng(0).permutation(40 + 12 + 11)
    parts = (target, held_out, strange)
    ids, pixels = (np.concatenate([getattr(part, name) for part in parts])[order] for name in ("ids", "pixels"))
    return model, ready.below, ImageSet(ids, pixels)


def ask(model, below, images):
    """Its logits, where activations may be used."""
    with answering(model, images.pixels.shape[1:], len(images), BATCH, below=below) as answer:
        return answer(images)


def test_answers_are_the_models_own(trained):
    """Row for row, whether an image has activations or not, of logits and of features; half precision apart."""
    model, below, images = trained
    truth, found = predict(model, images, BATCH), ask(model, below, images)
    assert np.abs(found - truth).max() < 0.01 * np.abs(truth).max()
    classes = truth.shape[1]
    whole, quick = (view(model, images, classes, BATCH, given) for given in (None, below))
    assert np.abs(quick.features - whole.features).max() < 0.01 * np.abs(whole.features).max()
    assert np.array_equal(quick.logits.argmax(axis=1), found.argmax(axis=1))


def test_what_is_below_is_not_run(trained):
    """Images that have activations are not looked at any more; others are."""
    model, below, images = trained
    truth, dark = ask(model, below, images), ask(model, below, ImageSet(images.ids, np.zeros_like(images.pixels)))
    known = images.ids < 9000
    np.testing.assert_allclose(dark[known], truth[known], rtol=1e-4, atol=1e-4)
    assert (np.abs(dark[~known] - truth[~known]).max(axis=1) > 0).all()


def test_another_model_answers_for_itself(trained):
    """Where what is below has other weights, nothing is taken from it."""
    model, below, images = trained
    with torch.no_grad():
        next(model.encoder.parameters()).mul_(1.5)
    assert below.cut(model) is None
    np.testing.assert_array_equal(ask(model, below, images), ask(model, None, images))


def test_the_first_activations_are_kept(settings, squares, tmp_path):
    """Those of images as they are may be made and asked before; what is made ready then takes them as they are."""
    chosen = settings("resnet18", depth="last-stage")
    data = EpisodeData(squares(36, 0), (), squares(40, 3000, tint=60, labelled=False), squares(12, 5000))
    model, plan = build_classifier(chosen.model, seed=1), Plan.for_adaptation(chosen, "guarded")
    below = find_below(model, data, plan, tmp_path / "activations")
    first = {path.name: path.stat().st_ino for path in (tmp_path / "activations").glob("*.f16")}
    assert sorted(first) == ["held-out-0.f16", "source-0.f16", "target-0.f16"]
    truth = predict(model, data.target, BATCH)
    assert np.abs(ask(model, below, data.target) - truth).max() < 0.01 * np.abs(truth).max()
    make_ready(model, data, plan, tmp_path / "activations")
    after = {path.name: path.stat().st_ino for path in (tmp_path / "activations").glob("*.f16")}
    assert first.items() < after.items()


def test_nothing_is_made_where_everything_is_trained(settings, squares, tmp_path):
    """Then what is below the cut is not known to stay."""
    chosen, data = settings("lenet5"), EpisodeData(squares(6, 0), (), squares(6, 100, labelled=False))
    plan = Plan.for_adaptation(chosen, "guarded")
    assert find_below(build_classifier(chosen.model), data, plan, tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
