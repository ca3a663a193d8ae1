"""What people are told while an episode runs: how far it is, what it is looking at, and how long that will take.

Told are the store, for `status` and the pages, and whoever runs the episode in the foreground.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from adaptd.errors import StoreBusy
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan
from adaptd.learning.reports import StepReport
from adaptd.pace import Pace, tell_duration
from adaptd.records import IMAGES_SEEN, IMAGES_TO_SEE, SECONDS_LEFT, SUPERVISED, Lease, Progress
from adaptd.store import Store
from adaptd.text import tell_count

PROGRESS_SECONDS = 1.0
CURVES = ("losses", "multipliers", "health")
"""What of `Progress.live` is kept of every step that is told."""

log = logging.getLogger(__name__)

ShowStep = Callable[[StepReport, float | None], None]
"""Told of every step, with the accuracy measured on the source test set after the last whole epoch."""

ShowPhase = Callable[[str, int, int], None]
"""Told of what is done beside steps, and how many images of how many were seen; of 0 where they are not counted."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is told, beside the store.

    Args:
        step: of every step; None: nobody.
        phase: of looking, evaluating and what follows.
        say: sentences: what is about to be done, and how long it takes.
    """

    step: ShowStep | None = None
    phase: ShowPhase = lambda _phase, _done, _total: None
    say: Callable[[str], None] = log.info


class Telling:
    """How far one episode is, under its lease. What the database does not take at once is not told: nobody needs to know."""

    def __init__(self, store: Store, episode_id: int, lease: Lease, audience: Audience) -> None:
        self._store, self._episode_id, self._lease, self._audience = store, episode_id, lease, audience
        self._progress = Progress("preparing", 0, 1)
        self._recorded_at = time.monotonic()
        self._seen = self._to_see = 0
        self._pace = Pace()
        self._has_promised = False
        self._entered_at, self._below = self._recorded_at, 0.0

    def prepare(self) -> None:
        """What takes no time is made ready; where it takes time, `reach` tells how far it is."""
        self._entered_at = time.monotonic()
        self._record(Progress("preparing", 0, 1))

    def enter(self, phase: str, *, images: int = 0, step: int = 1, steps: int = 1) -> None:
        """Something else begins, and so many images will be looked at."""
        self._expect(images)
        self._entered_at = time.monotonic()
        self._record(Progress(phase, step, steps))
        self._audience.phase(phase, 0, images)

    def saw(self, count: int) -> None:
        """So many more images were looked at."""
        self.reach(self._seen + count, max(self._seen + count, self._to_see))

    def reach(self, seen: int, total: int) -> None:
        """So many were looked at by now, and of how many."""
        self._seen = seen
        phase = "looking" if self._progress.phase == "training" else self._progress.phase
        left = self._pace.note(self._seen, total)
        self._audience.phase(phase, self._seen, total)
        if time.monotonic() - self._recorded_at >= PROGRESS_SECONDS:
            live: dict[str, Any] = {SECONDS_LEFT: left} | self._progress.live
            live |= {IMAGES_SEEN: self._seen, IMAGES_TO_SEE: total}
            self._write(replace(self._progress, phase=phase, live=live))

    @property
    def seconds_below(self) -> float:
        """What an image took below what is trained, where that was run beforehand."""
        return self._below

    def step(self, report: StepReport, images: int) -> None:
        """A step was taken, and so many images are looked at before the next epoch."""
        live = {"losses": report.losses, "multipliers": report.multipliers, "learning_rate": report.learning_rate}
        live |= {"health": report.health, SECONDS_LEFT: report.seconds_left}
        progress = Progress("training", report.step, report.steps, live)
        if time.monotonic() - self._recorded_at >= PROGRESS_SECONDS or report.step == report.steps:
            self._record(progress)
        self._progress = progress
        self._expect(images)
        if report.seconds_left is not None and not self._has_promised:
            self._has_promised = True
            left = report.steps - report.step
            self._audience.say(
                f"about {tell_duration(report.seconds_left)} to go: {tell_count(left, 'step')}, then evaluating and exporting"
            )

    def _expect(self, images: int) -> None:
        if self._progress.phase == "preparing" and self._seen:
            self._below = (time.monotonic() - self._entered_at) / self._seen
        self._seen, self._to_see, self._pace = 0, images, Pace()

    def _record(self, progress: Progress) -> None:
        self._progress = progress
        self._write(progress)

    def _write(self, progress: Progress) -> None:
        self._recorded_at = time.monotonic()
        try:
            with self._store.writing() as tx:
                tx.episodes.progress(self._episode_id, self._lease, progress)
                if progress.phase == "training" and any(progress.live.get(name) for name in CURVES):
                    tx.curves.add(self._episode_id, progress.step, {name: progress.live.get(name, {}) for name in CURVES})
        except StoreBusy as problem:
            log.warning("progress was not recorded: %s", problem)


def describe_work(training: Training, domain: str) -> str:
    """What an episode is about to do, in one sentence."""
    plan, data, model = training.plan, training.data, training.model.settings
    epochs = f"{tell_count(plan.epochs, 'epoch')} of {tell_count(training.epoch_steps, 'step')}" if training.steps else "no steps"
    where = f"{model.backbone} at {model.image_size} px on {_describe_device(plan)}"
    where += "" if plan.depth == "all" else f"; its {plan.depth.replace('-', ' ')} alone is trained"
    return f"{_describe_images(data, domain)}; {'' if plan.method == SUPERVISED else f'{plan.method}, '}{epochs}; {where}"


def _describe_images(data: EpisodeData, domain: str) -> str:
    if data.target is None:
        return f"{domain}: {len(data.source):,} labelled images to learn from"
    remembered = sum(map(len, data.memories))
    others = f"{len(data.source):,} of the source" + (f", {remembered:,} remembered" if remembered else "")
    return f"{domain}: {len(data.target):,} images to adapt to, {others}"


def _describe_device(plan: Plan) -> str:
    if plan.device != "cpu":
        return plan.device
    return f"cpu, {tell_count(plan.threads, 'thread')}"
