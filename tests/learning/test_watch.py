"""An episode that is watched: what it is held against, and what ends it."""

import pytest
import torch

from adaptd.errors import PredictionsCollapsed
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan


@pytest.fixture
def begin(settings, squares):
    """An episode of a model that knows its source."""

    def make(*, held_out: int = 0, **training) -> Training:
        chosen = settings(**{"learning_rate": 1e-6, "max_lost_classes": 0.25} | training)
        source = squares(36, 0)
        model = build_classifier(chosen.model, seed=1)
        list(Training(model, EpisodeData(source), Plan.for_source(chosen)))
        data = EpisodeData(source, (), squares(60, 3000, tint=40), squares(held_out, 9000) if held_out else None)
        return Training(model, data, Plan.for_adaptation(chosen, "contrastive+source"))

    return make


def collapse(episode: Training) -> None:
    """The classifier forgets every class but the first."""
    with torch.no_grad():
        episode.model.classifier.bias[0] += 1000


def test_a_collapse_ends_the_episode(begin):
    """Seen at two looks in a row, whatever the method: the episode ends there, long before its last step."""
    episode = begin(epochs=20)
    with pytest.raises(PredictionsCollapsed, match=r"2 of 3 classes are hardly predicted any more \(g, b\)"):
        for report in episode:
            if report.step == 1:
                collapse(episode)
    assert episode.step == 2 * episode.epoch_steps
    assert [look["classes"] for look in episode.watch.describe()["health"]] == [3, 1, 1]


def test_a_collapse_in_the_last_epoch_is_seen_too(begin):
    """The last look decides alone; where everything may be lost, nothing does."""
    episode = begin(epochs=1)
    list(episode)
    collapse(episode)
    with pytest.raises(PredictionsCollapsed):
        episode.finish()
    careless = begin(epochs=1, max_lost_classes=1.0)
    list(careless)
    collapse(careless)
    assert careless.finish().report["health"][-1]["classes"] == 1


def test_a_healthy_episode_tells_its_health(begin):
    """Before the first step, at every epoch, at the end; and every step tells of the newest look."""
    episode = begin(epochs=3)
    reports = list(episode)
    report = episode.finish().report
    steps = episode.epoch_steps
    assert [look["step"] for look in report["health"]] == [0, steps, 2 * steps, 3 * steps]
    assert set(reports[0].health) == {"agreement", "balance", "nuclear norm"}
    assert report["trust"]["recognition"] > 0.8


def test_it_is_held_against_as_many_images_that_nobody_learned_from(begin):
    """Enough held-out images of the source are taken; else the source's own."""
    assert _compared(begin(held_out=120)) == 60
    assert _compared(begin(held_out=30)) == 36


def _compared(episode: Training) -> int:
    episode.begin()
    return episode.watch.trust.images
