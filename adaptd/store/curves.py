"""Curves: what running episodes told step by step, thinned so that a long one takes no more room than a short one."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select

from adaptd.store.repository import Repository
from adaptd.store.tables import curves

POINTS = 240
"""Kept of an episode at most; then every other one goes."""
EPISODES = 100
"""The newest so many keep theirs."""


class Curves(Repository):
    """Losses, multipliers and health of an episode, by step; for people, so that nothing depends on them."""

    def add(self, episode_id: int, step: int, live: Mapping[str, Any]) -> None:
        """One more point. An episode that went on from a checkpoint tells steps again: the newer word counts."""
        mine = curves.c.episode_id == episode_id
        self._connection.execute(delete(curves).where(mine, curves.c.step >= step))
        self._connection.execute(insert(curves).values(episode_id=episode_id, step=step, live=dict(live)))
        steps = list(self._connection.execute(select(curves.c.step).where(mine).order_by(curves.c.step)).scalars())
        if len(steps) > POINTS:
            # The first and the newest stay.
            self._connection.execute(delete(curves).where(mine, curves.c.step.in_(steps[1:-1:2])))

    def list_for(self, episode_id: int) -> tuple[tuple[int, dict[str, Any]], ...]:
        """(step, what was told), in order."""
        statement = select(curves.c.step, curves.c.live).where(curves.c.episode_id == episode_id).order_by(curves.c.step)
        return tuple((step, live) for step, live in self._connection.execute(statement))

    def forget_old(self) -> None:
        """Those of all but the newest episodes that have any."""
        newest: int | None = self._connection.execute(select(func.max(curves.c.episode_id))).scalar()
        if newest is not None:
            self._connection.execute(delete(curves).where(curves.c.episode_id <= newest - EPISODES))
