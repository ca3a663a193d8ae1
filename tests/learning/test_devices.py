"""Episodes on a second device: no tensor is at the wrong place, results are the same, and checkpoints move."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from adaptd.errors import ConfigError
from adaptd.evaluation.evaluator import predict
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.devices import list_devices, resolve_device
from adaptd.learning.loop import Training
from adaptd.learning.methods.registry import METHODS
from adaptd.learning.plan import Plan
from adaptd.learning.weights import save_classifier
from tests.learning.away import AWAY, MixedDevices, second_device


@pytest.fixture
def start(settings, squares):
    """Makes the same episode each time, on a device."""
    memories = (squares(9, 1000, tint=20), squares(7, 2000, tint=40))
    data = EpisodeData(squares(36, 0), memories, squares(40, 3000, tint=60, labelled=False))
    given = settings(options={"guarded": {"min_agreement": 0.0}, "self_training": {"min_agreement": 0.0}})

    def make(method: str, device: str) -> Training:
        plan = Plan.for_source(given) if method == "supervised" else Plan.for_adaptation(given, method)
        return Training(build_classifier(given.model, seed=1), data, replace(plan, device=device))

    return make


QUICK = ("guarded", "grcl", "supervised")


@pytest.mark.parametrize("method", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in METHODS])
def test_an_episode_elsewhere_is_the_same(start, method):
    """Every method, from its first look to its memory; and one that was begun on one device goes on on the other."""
    home = start(method, "cpu")
    middle = None
    for report in home:
        if report.step == home.epoch_steps + 1:
            middle = home.state()
    memory = home.finish().memory
    with second_device() as elsewhere:
        away = start(method, AWAY)
        assert all(parameter in elsewhere for parameter in away.model.parameters())
        states = [away.state() for report in away if report.step == home.epoch_steps + 1]
        assert not any(tensor in elsewhere for state in states for tensor in state.tensors.values())
        found = away.finish().memory
        moved = start(method, AWAY)
        if middle is not None:
            moved.restore(middle)
        for _ in moved:
            pass
        weights = [save_classifier(episode.model) for episode in (away, moved)]
        answers = predict(away.model, away.data.source, 16)
    assert weights == [save_classifier(home.model)] * 2
    np.testing.assert_array_equal(answers, predict(home.model, home.data.source, 16))
    if memory is not None:
        assert torch.equal(found.ids, memory.ids)
    if states:
        back = start(method, "cpu")
        back.restore(states[0])
        for _ in back:
            pass
        assert save_classifier(back.model) == save_classifier(home.model)


def test_the_second_device_finds_what_it_is_for():
    """A tensor made on the default device by accident, mixed in; an array read from elsewhere; the wrong generator."""
    with second_device():
        here, there = torch.ones(3), torch.ones(3, device=AWAY)
        assert str((2 * there).device) == AWAY
        assert float((there * torch.tensor(2.0)).sum()) == 6.0
        for accident in (
            lambda: here + there,
            there.numpy,
            lambda: here[there.long()],
            lambda: torch.rand(3, device=AWAY, generator=torch.Generator()),
        ):
            with pytest.raises(MixedDevices):
                accident()


def test_a_device_that_is_not_there_is_told():
    """With those that are; `auto` takes the first of them."""
    known = list_devices()
    assert resolve_device("auto") == known[0]
    with pytest.raises(ConfigError, match=r"training\.device is cuda:77, but torch sees .*cpu alone"):
        resolve_device("cuda:77")
