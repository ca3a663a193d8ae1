"""Time left from a moving window."""

import pytest

from adaptd.pace import LEAST_NOTES, WINDOW_SECONDS, Pace, tell_duration


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_nothing_is_promised_by_the_first_notes():
    """A slow start is not taken for the pace of all the rest."""
    clock = Clock()
    pace = Pace(clock)
    assert pace.note(0, 100) is None
    clock.now += 600
    told = []
    for done in range(1, LEAST_NOTES + 40):
        told.append(pace.note(done, 100))
        clock.now += 2
    assert told[: LEAST_NOTES - 2] == [None] * (LEAST_NOTES - 2)
    assert told[-1] == pytest.approx(2 * (100 - done))


def test_after_a_resume_only_what_was_done_since_counts():
    """At step 500 of 600 again, with two seconds a step: 200 seconds are left, not a sixth of that."""
    clock = Clock()
    pace = Pace(clock)
    for done in range(500, 510):
        left = pace.note(done, 600)
        clock.now += 2
    assert left == pytest.approx(2 * 91)


def test_only_the_last_minute_counts():
    """A machine that has become ten times slower is believed soon."""
    clock = Clock()
    pace = Pace(clock)
    done = 0
    for seconds in (*(0.1,) * 100, *(1.0,) * round(2 * WINDOW_SECONDS)):
        clock.now += seconds
        done += 1
        left = pace.note(done, 1000)
    assert left == pytest.approx(1000 - done, rel=0.05)


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.2, "1 s"), (8.4, "8 s"), (89, "89 s"), (170, "3 min"), (5000, "83 min"), (5500, "1.5 h")]
)
def test_durations(seconds, told):
    """As people say them."""
    assert tell_duration(seconds) == told
