"""When a drop is complete: pure logic over what was seen at which time. Reads no clock and no file."""

from dataclasses import dataclass, field
from enum import StrEnum

from adaptd.intake.tree import Stamp, Tree


class DropState(StrEnum):
    """How far a drop is."""

    EMPTY = "empty"
    ARRIVING = "arriving"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a drop after a look at it.

    Args:
        why: for a person.
        next_look: the time at which the next look may find it settled, or must confirm that it still is.
        waiting_for: the temporary file that holds it up, by its path inside the drop.
    """

    state: DropState
    why: str
    next_look: float
    waiting_for: str | None = None


@dataclass(slots=True)
class _History:
    """Since when a drop, and each temporary file in it, has been what it is."""

    fingerprint: str
    since: float
    temporary: dict[str, tuple[Stamp, float]] = field(default_factory=dict)


class Settling:
    """Tells of each drop whether it is complete.

    It is when `_READY` stands beside at least one file; or when nothing in it changed for `settle_seconds` and it holds no
    temporary name. A temporary file that itself did not change for `temporary_seconds` was left behind and counts as any other.
    Times are those of a monotonic clock. They start with the first look: what was there before it is not known.
    """

    def __init__(self, settle_seconds: float, temporary_seconds: float) -> None:
        self.settle_seconds = settle_seconds
        self.temporary_seconds = temporary_seconds
        self._histories: dict[str, _History] = {}

    def look(self, drop: str, tree: Tree, now: float) -> Verdict:
        """Take in how a drop looks at this time, and judge it."""
        history = self._remember(drop, tree, now)
        confirm = now + self.settle_seconds
        if tree.is_empty:
            return Verdict(DropState.EMPTY, "it holds no files", now)
        if tree.ready and tree.files:
            return Verdict(DropState.SETTLED, "marked as ready", confirm)
        quiet = history.since + self.settle_seconds
        if now < quiet:
            return Verdict(DropState.ARRIVING, "still changing", quiet)
        # Of several temporary files the one that changed last holds it up for longest.
        name, (_, since) = max(history.temporary.items(), key=lambda item: item[1][1], default=("", (None, now)))
        if name and now < since + self.temporary_seconds:
            return Verdict(DropState.ARRIVING, f"waiting for temporary file {name!r}", since + self.temporary_seconds, name)
        return Verdict(DropState.SETTLED, f"unchanged for {self.settle_seconds:g} s", confirm)

    def forget(self, drop: str) -> None:
        """A drop is gone: one of the same name is another."""
        self._histories.pop(drop, None)

    def _remember(self, drop: str, tree: Tree, now: float) -> _History:
        history = self._histories.get(drop)
        if history is None or history.fingerprint != tree.fingerprint:
            before = {} if history is None else history.temporary
            history = self._histories[drop] = _History(tree.fingerprint, now)
            for name, stamp in tree.temporary.items():
                known = before.get(name)
                history.temporary[name] = known if known is not None and known[0] == stamp else (stamp, now)
        return history
