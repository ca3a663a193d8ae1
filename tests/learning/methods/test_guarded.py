"""Guarded self-training: who takes part, and what the step promises."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from adaptd.errors import DomainNotRecognised
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.methods import guarded
from adaptd.learning.methods.labelling import NOT_YET, Labelling
from adaptd.learning.methods.options import GuardedOptions
from adaptd.learning.plan import Plan
from adaptd.learning.survey import survey
from adaptd.library.imageset import ImageSet


@pytest.fixture
def begin(settings, squares):
    """Begin an episode with a model that knows its source, ready for `update`."""

    def make(name: str = "guarded", **training) -> Training:
        chosen = settings(**training)
        source = squares(36, 0)
        model = build_classifier(chosen.model, seed=1)
        list(Training(model, EpisodeData(source), Plan.for_source(chosen)))
        memories = (squares(9, 1000, tint=20), squares(7, 2000, tint=40))
        data = EpisodeData(source, memories, squares(60, 3000, tint=60))
        episode = Training(model, data, Plan.for_adaptation(chosen, name))
        episode.begin()
        return episode

    return make


def losses(episode: Training) -> dict[str, float]:
    """Cross-entropies of the constraints on the first batch."""
    with torch.no_grad():
        return {
            part.name: functional.cross_entropy(episode.model(part.images), part.labels).item()
            for part in episode.batches[0].parts
            if part.labels is not None
        }


@pytest.mark.parametrize("optimizer", ["rmsprop", "sgd"])
def test_a_small_step_raises_no_constraint(begin, optimizer):
    """To first order neither the source's nor the memory's loss of the batch rises along the step that is really taken."""
    episode = begin(optimizer=optimizer, learning_rate=1e-6)
    before = losses(episode)
    next(iter(episode))
    after = losses(episode)
    assert all(after[name] <= before[name] + 1e-6 for name in before), (before, after)


@pytest.mark.parametrize(("agreement", "share"), [(0.4, 0.2), (0.8, 0.6), (1.0, 1.0)])
def test_the_share_that_takes_part_grows_with_agreement(begin, monkeypatch, agreement, share):
    """The better classifier and clusters agree, the more images take part; without the curriculum all do."""
    episode = begin()
    method = episode.method
    every = Labelling(torch.arange(60) % 3, torch.linspace(0.1, 0.9, 60), agreement)
    monkeypatch.setattr(guarded, "label", lambda *_: every)
    method.look(survey(episode.model, episode.data.target), 1)
    assert int((method.labels != NOT_YET).sum()) == pytest.approx(share * 60, abs=3)
    method.options = GuardedOptions(curriculum=False)
    method.look(survey(episode.model, episode.data.target), 1)
    assert bool((method.labels != NOT_YET).all())


def test_it_converges_once_nothing_new_is_seen(begin):
    """Three looks without better agreement end the episode within an epoch, while the rate falls to nothing."""
    episode = begin(epochs=30, learning_rate=1e-9)
    reports = list(episode)
    assert len(reports) == 4 * episode.epoch_steps < 30 * episode.epoch_steps
    assert [report.steps for report in reports][-1] == len(reports)
    rates = [report.learning_rate for report in reports]
    assert rates[-1] < 0.2 * rates[0]
    assert episode.finish().report["converged_at"] == 3 * episode.epoch_steps


def test_an_episode_that_converged_resumes_to_the_same_end(begin):
    """Stopped before, at and after the step at which it converged, it ends at the same step with the same weights."""
    whole = begin(epochs=30, learning_rate=1e-4)
    states = {}
    for report in whole:
        states[report.step] = whole.state()
    converged = whole.finish().report["converged_at"]
    assert converged is not None
    for step in (converged - 1, converged, converged + 1, converged + 2):
        resumed = begin(epochs=30, learning_rate=1e-4)
        resumed.restore(states[step])
        list(resumed)
        assert resumed.step == whole.step
        assert torch.equal(resumed.method.parameters.theta, whole.method.parameters.theta)


def refuse(begin, settings, target: ImageSet, said: str) -> None:
    """Before the first step, and the model stays as it was."""
    episode = begin()
    model, data = episode.model, EpisodeData(episode.data.source, (), target)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(DomainNotRecognised, match=said):
        list(Training(model, data, Plan.for_adaptation(settings(), "guarded")))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    trusting = settings(options={"guarded": {"min_agreement": 0.0}})
    next(iter(Training(model, data, Plan.for_adaptation(trusting, "guarded"))))


def test_one_class_alone_is_refused(begin, squares, settings):
    """However alike its images are to one class of the source; with the setting at 0 it is learned from."""
    mixed = squares(90, 5000, tint=60)
    ones = mixed.labels == 1
    refuse(
        begin, settings, ImageSet(mixed.ids[ones], mixed.pixels[ones], None), r"one class alone.*method\.guarded\.min_agreement"
    )


def test_noise_is_refused(begin, squares, settings):
    """Images without content, all alike to the model."""
    noise = np.random.default_rng(0).integers(0, 256, (60, 3, 16, 16), dtype=np.uint8)
    refuse(begin, settings, ImageSet(np.arange(60), noise), "does not recognise|one class alone")


def test_a_hard_domain_is_not_refused(begin, squares, settings):
    """Contrast gone to a third and noise over it: less is right than at home, every class is still seen."""
    episode = begin()
    clear = squares(90, 6000, tint=60)
    hard = (clear.pixels / 3 + np.random.default_rng(0).integers(0, 60, clear.pixels.shape)).astype(np.uint8)
    data = EpisodeData(episode.data.source, (), ImageSet(clear.ids, hard))
    training = Training(episode.model, data, Plan.for_adaptation(settings(), "guarded"))
    next(iter(training))
    assert 0.4 <= training.watch.trust.recognition < 1
