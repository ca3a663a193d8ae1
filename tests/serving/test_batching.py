"""Batches form under load, never mix versions, and change no answer."""

import asyncio
import threading

import numpy as np
import pytest

from adaptd.errors import ClientLeft, RequestRefused
from adaptd.serving.batching import Batcher
from adaptd.serving.models import read_version
from adaptd.serving.session import load_model

from .conftest import expected, models, publish, random_images


def here() -> bool:
    """A client that waits for its answer is not gone."""
    return False


class Gated:
    """A real model whose runs wait for a gate, so that a queue can form."""

    def __init__(self, model) -> None:
        self.version = model.version
        self.gate = threading.Event()
        self.runs: list[int] = []
        self._model = model

    def run(self, images):
        """Wait, then answer."""
        assert self.gate.wait(30)
        self.runs.append(len(images))
        return self._model.run(images)


@pytest.fixture
def load(fresh):
    """Versions by number."""

    def loaded(version: int) -> Gated:
        publish(models(fresh), version)
        return Gated(load_model(read_version(models(fresh), version), 1))

    return loaded


def test_what_waits_runs_together_and_answers_stay_apart(load):
    """The first runs alone, at once; the others together up to the largest batch; each gets its own rows."""
    model = load(1)
    questions = [random_images(count, seed) for seed, count in enumerate([1, 3, 2, 5, 4, 1])]

    async def ask():
        batcher = Batcher(max_batch_size=8, max_queue=10)
        answers = [batcher.submit(model, images, here) for images in questions]
        assert batcher.depth == 5
        model.gate.set()
        return await asyncio.gather(*answers)

    answers = asyncio.run(ask())
    assert model.runs == [1, 3 + 2 + 1, 5, 4]
    for images, (logits, probabilities) in zip(questions, answers, strict=True):
        right = expected(1, images)
        assert np.array_equal(logits, right[0])
        assert np.array_equal(probabilities, right[1])


def test_versions_never_mix(load):
    """A run is of one version, oldest question first."""
    one, two = load(1), load(2)
    images = random_images(2)

    async def ask():
        batcher = Batcher(64, 100)
        answers = [batcher.submit(model, images, here) for model in (one, two, one, two, one)]
        one.gate.set()
        two.gate.set()
        return await asyncio.gather(*answers)

    answers = asyncio.run(ask())
    assert (one.runs, two.runs) == ([2, 4], [4])
    for version, (logits, _) in zip((1, 2, 1, 2, 1), answers, strict=True):
        assert np.array_equal(logits, expected(version, images)[0])


def test_a_full_queue_refuses(load):
    """Beyond the limit a request is told to come back, and those that wait are answered."""
    model = load(1)

    async def ask():
        batcher = Batcher(1, 2)
        answers = [batcher.submit(model, random_images(1), here) for _ in range(3)]
        with pytest.raises(RequestRefused, match="2 requests are waiting already") as caught:
            batcher.submit(model, random_images(1), here)
        assert caught.value.status == 503
        model.gate.set()
        return await asyncio.gather(*answers)

    assert len(asyncio.run(ask())) == 3


def test_a_failing_run_fails_its_requests_only(load):
    """Whoever waits hears of it, and the next run goes on."""
    model = load(1)
    model.gate.set()

    async def ask():
        batcher = Batcher(8, 8)
        with pytest.raises(Exception, match="Got invalid dimensions"):
            await batcher.submit(model, np.zeros((1, 3, 4, 4), np.uint8), here)
        return await batcher.submit(model, random_images(1), here)

    assert asyncio.run(ask())[0].shape == (1, 3)


def test_what_nobody_waits_for_does_not_run(load):
    """A cancelled request, and one whose client has left, cost nothing."""
    model = load(1)

    async def ask():
        batcher = Batcher(8, 8)
        first, second, third = (batcher.submit(model, random_images(1), here) for _ in range(3))
        left = batcher.submit(model, random_images(1), lambda: True)
        second.cancel()
        model.gate.set()
        await asyncio.gather(first, third)
        with pytest.raises(ClientLeft):
            await left

    asyncio.run(ask())
    assert model.runs == [1, 1]


def test_answers_do_not_depend_on_the_batch(load):
    """To the last bit: an image alone, among two, among many."""
    model = load(1)
    model.gate.set()
    images = random_images(64)
    together = model.run(images)
    for size in (1, 2, 3, 7, 16, 33):
        for start in range(0, 64 - size + 1, size):
            piece = slice(start, start + size)
            assert all(np.array_equal(a, b[piece]) for a, b in zip(model.run(images[piece]), together, strict=True))
