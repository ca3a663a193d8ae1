"""Watching an episode without labels: a domain beside the source before the first step, and its health at every epoch.

Nothing is drawn from the episode's random numbers and nothing learned here, so that watching changes no step.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adaptd.learning.backbones import Classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.health import POORER, Health, Look, check_collapse, examine
from adaptd.learning.plan import Plan
from adaptd.learning.quick import Pass
from adaptd.learning.seeding import generator
from adaptd.learning.survey import Survey, survey
from adaptd.learning.trust import ALIKE, NEARLY_ALL, Trust, compare
from adaptd.library.imageset import ImageSet

COMPARED = 1000
"""At most so many images of a domain are held against as many of the source; the fewer, the less they tell."""

WATCHED = 512
"""At most so many are looked at in every epoch."""

HELD_OUT = 100
"""So many held-out images of the source are enough to be held against."""

CLASSES, MEMBERS = 20, 20
"""At most so many classes of the source, with so many images each at least, are looked at one by one."""


class Watch:
    """The health of one episode. Without a target domain there is nothing to watch, and every call does nothing."""

    def __init__(self, model: Classifier, data: EpisodeData, plan: Plan) -> None:
        self._model, self._data, self._plan = model, data, plan
        self.trust: Trust | None = None
        self.looks: list[Look] = []

    def begin(self, target: Survey | None) -> None:
        """The first look at the target, and at as many images of the source: what the model reaches where it is at home."""
        if target is None:
            return
        assert target.features is not None
        held_out, source = self._data.held_out_source, self._data.source
        known = held_out if held_out is not None and len(held_out) >= HELD_OUT else source
        count = min(COMPARED, len(known), len(target.logits))
        rows = self._draw(len(target.logits), count)
        compared = examine(target.logits[rows], target.features[rows])
        self.trust = self._compare(compared, known, self._draw(len(known), count).numpy(), target.encode)
        watched = self._draw(len(target.logits), WATCHED)
        self.looks = [examine(target.logits[watched], target.features[watched])]

    def look(self, step: int, target: Survey | None) -> None:
        """Look at the target again, after so many steps; by a survey of all of it with the same weights, where there is one."""
        if self._data.target is None:
            return
        rows = self._draw(len(self._data.target), WATCHED)
        if target is None:
            target, rows = survey(self._model, self._data.target, rows.numpy()), torch.arange(len(rows))
        assert target.features is not None
        self.looks.append(examine(target.logits[rows], target.features[rows], step))

    def check(self, *, is_last: bool = False) -> None:
        """Stop a collapse: one that two looks in a row have seen, or the last of all.

        Raises:
            PredictionsCollapsed: more classes are lost than the plan allows.
        """
        count = 1 if is_last else 2
        if len(self.looks) > count:
            counting = self.looks[:1] + self.looks[-count:]
            check_collapse(counting, self._model.settings.classes, self._plan.max_lost_classes)

    @property
    def newest(self) -> dict[str, float]:
        """The figures of the newest look that change as an episode goes on, for people who watch."""
        if not self.looks:
            return {}
        health = self.looks[-1].health
        return {"agreement": health.agreement, "balance": health.balance, "nuclear norm": health.nuclear_norm}

    def describe(self) -> dict[str, Any]:
        """For reports: the domain beside the source, every look at it, and what would have counted against it."""
        limits = {"spread": ALIKE, "largest": NEARLY_ALL, "balance": POORER, "lost_classes": self._plan.max_lost_classes}
        return {
            "limits": limits,
            "trust": None if self.trust is None else self.trust.to_json(),
            "health": [{"step": each.step, **asdict(each.health)} for each in self.looks],
        }

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"trust": None if self.trust is None else asdict(self.trust), "looks": [asdict(each) for each in self.looks]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.trust = None if state["trust"] is None else Trust(**state["trust"])
        self.looks = [Look(Health(**each["health"]), tuple(each["counts"]), each["step"]) for each in state["looks"]]

    def _draw(self, size: int, count: int) -> Tensor:
        """The same rows each time."""
        return torch.randperm(size, generator=generator(self._plan.seed, "watch"))[:count].sort().values

    def _compare(self, target: Look, known: ImageSet, rows: NDArray[np.int64], encode: Pass) -> Trust:
        seen = survey(self._model, known.unlabelled(), rows, encode=encode)
        assert seen.features is not None
        names = self._model.settings.classes
        largest = names[int(np.argmax(target.counts))]
        single = 0.0 if known.labels is None else _single_class(seen.logits, seen.features, known.labels[rows])
        return compare(target.health, examine(seen.logits, seen.features).health, single, largest)


def _single_class(logits: Tensor, features: Tensor, labels: NDArray[np.int64]) -> float:
    """How much a class alone is like as many images of all of them; the mean over classes."""
    found = []
    for name in np.flatnonzero(np.bincount(labels) >= MEMBERS)[:CLASSES]:
        alone = torch.from_numpy(np.flatnonzero(labels == name))
        among = torch.linspace(0, len(labels) - 1, len(alone)).round().long()
        one, every = (examine(logits[rows], features[rows]).health for rows in (alone, among))
        found.append(compare(one, every).likeness)
    return sum(found) / len(found) if found else 0.0
