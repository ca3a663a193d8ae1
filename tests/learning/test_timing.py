"""The time left of an episode, and who is told what it looks at."""

import pytest

from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan
from adaptd.learning.timing import COLD, MEASURED, Timing


@pytest.fixture
def start(settings, squares):
    """Makes the same episode each time."""
    given = settings(epochs=8, options={"guarded": {"min_agreement": 0.0, "patience": 0}})
    data = EpisodeData(squares(36, 0), (), squares(40, 3000, tint=60, labelled=False))
    return lambda: Training(build_classifier(given.model, seed=1), data, Plan.for_adaptation(given, "guarded"))


def test_cold_steps_do_not_count():
    """A first step of a minute promises nothing; and a slow one later hardly anything."""
    timing = Timing()
    told = []
    for seconds in (60.0, 10.0, 1.0, 1.0, 1.2, 9.0, 1.0):
        timing.add(seconds)
        told.append(timing.step_seconds())
    assert told[: COLD + MEASURED - 1] == [None] * (COLD + MEASURED - 1)
    assert told[-1] == 1.0


def test_the_time_left_is_right_from_the_start_and_after_a_resume(start):
    """It falls to about nothing; a resumed episode says what the other said at that step, not a sixth of it."""
    episode, told = start(), {}
    for report in episode:
        told[report.step] = report.seconds_left
        if report.step == 5 * episode.epoch_steps:
            state = episode.state()
    assert told[COLD + MEASURED - 1] is None
    assert told[COLD + MEASURED] > told[report.steps - 1] > 0
    resumed = start()
    resumed.restore(state)
    again = {report.step: report.seconds_left for report in resumed}
    step = min(step for step, left in again.items() if left is not None)
    assert step == 5 * episode.epoch_steps + COLD + MEASURED
    assert again[step] == pytest.approx(told[step], rel=0.8)


def test_everything_that_is_looked_at_is_counted(start):
    """The first survey and views, each epoch's, and the last ones: as many images as people are told."""
    episode, seen = start(), []
    episode.model.seen = seen.append
    every, look = sum(map(len, episode.data.every)), episode.method.look_images
    assert (every, look) == (76, 160)
    episode.begin()
    assert sum(seen) == pytest.approx(every + look, abs=80)
    for _ in range(episode.epoch_steps + 1):
        seen.clear()
        next(iter(episode))
    assert sum(seen) == look
