"""A folder in the inbox from first sight to claim. What lies there is the scanner's to say, moving it is `claim`'s work.

Each folder has one `Arrival` in one state. Only the functions of this table change it:

| from     | what happens                                                       | to                | by           |
| -------- | ------------------------------------------------------------------ | ----------------- | ------------ |
| (new)    | a scan shows it: its domain is announced                           | ARRIVING          | `see`        |
| ARRIVING | it is complete                                                     | SETTLED           | `see`        |
| SETTLED  | it changes again                                                   | ARRIVING          | `see`        |
| SETTLED  | there is no room for a copy of it                                  | REFUSED           | `_refuse`    |
| SETTLED  | it is read in place, and these files were taken before             | IN_PLACE          | `_recognise` |
| SETTLED  | the store has a row for it, by which a start after a kill finds it | RECORDED          | `_record`    |
| RECORDED | it is read in place, nothing moves: next is the import             | IN_PLACE          | `_finish`    |
| RECORDED | its move begins                                                    | CLAIMING          | `_claim`     |
| CLAIMING | it lies in the state folder: next is the import                    | CLAIMED           | `_finish`    |
| CLAIMING | it cannot be moved: its row goes, its domain is what it was        | REFUSED           | `_refuse`    |
| CLAIMING | it changed, or the disk is full: likewise                          | ARRIVING          | `_take_back` |
| CLAIMING | it was moved, but the disk failed after that                       | RECORDED          | `_end_claim` |
| RECORDED | at the next look its folder has come, after all                    | CLAIMED, IN_PLACE | `_follow_up` |
| RECORDED | at the next look its folder has not come: its row goes             | ARRIVING          | `_take_back` |
| REFUSED  | some time has passed, and it is complete                           | SETTLED           | `see`        |
| IN_PLACE | it holds other files than those that were taken                    | ARRIVING          | `see`        |

Forgotten are the CLAIMED ones, and those that a scan does not show any more while nobody moves them. After a start every drop
that waits in the store is RECORDED.
"""

import errno
import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from adaptd.daemon.deliveries import Deliveries
from adaptd.errors import ClaimRefused, DropChanged, InboxUnavailable
from adaptd.intake.claiming import begin_claim, finish_claim, require_room
from adaptd.intake.scanner import Drop, Scan, Scanner
from adaptd.intake.settling import DropState, Settling
from adaptd.intake.tree import Tree
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import Domain, DropRecord
from adaptd.store import Store

REFUSED_SECONDS = 30.0
"""A drop that cannot be taken is tried again after this time."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

log = logging.getLogger(__name__)


class ArrivalState(StrEnum):
    """How far a folder is on its way from the inbox to us."""

    ARRIVING = "arriving"
    SETTLED = "settled"
    REFUSED = "refused"
    RECORDED = "recorded"
    CLAIMING = "claiming"
    CLAIMED = "claimed"
    IN_PLACE = "in place"


OPEN = frozenset({ArrivalState.ARRIVING, ArrivalState.SETTLED, ArrivalState.REFUSED})
"""It lies in the inbox and is not ours."""
UNDER_WAY = frozenset({ArrivalState.RECORDED, ArrivalState.CLAIMING})
"""It has a row, and nobody knows yet what comes of it."""


@dataclass(slots=True, eq=False)
class Arrival:
    """A folder, as the last scan showed it, with its state.

    `drop` is its row and `before` its domain without it, from RECORDED on; `moved` is the end of its move, from CLAIMING on.
    `why` it was refused, and when it is tried again, is of REFUSED.
    """

    found: Drop
    state: ArrivalState = ArrivalState.ARRIVING
    drop: DropRecord = field(init=False, repr=False)
    before: Domain = field(init=False, repr=False)
    moved: Future[tuple[str, ...]] = field(init=False, repr=False)
    why: str = ""
    retry_at: float = 0.0


def see(arrivals: Iterable[Arrival], scan: Scan, now: float) -> list[Arrival]:
    """What a scan makes of the folders known so far: those it shows, in its order, and those that are being moved."""
    known = {arrival.found.folder: arrival for arrival in arrivals if arrival.state is not ArrivalState.CLAIMED}
    seen = [arrival for arrival in known.values() if arrival.state in UNDER_WAY]
    for drop in scan.drops:
        arrival = known.get(drop.folder) or Arrival(drop)
        if arrival.state not in UNDER_WAY:
            arrival.state, arrival.found = _next_state(arrival, drop, now), drop
            seen.append(arrival)
    return seen


def _next_state(arrival: Arrival, drop: Drop, now: float) -> ArrivalState:
    is_settled = drop.state is DropState.SETTLED
    if arrival.state is ArrivalState.REFUSED and (now < arrival.retry_at or not is_settled):
        return ArrivalState.REFUSED
    if arrival.state is ArrivalState.IN_PLACE and drop.tree.fingerprint == arrival.found.tree.fingerprint:
        return ArrivalState.IN_PLACE
    return ArrivalState.SETTLED if is_settled else ArrivalState.ARRIVING


class Arrivals:
    """The inbox of a project, as the supervisor sees it."""

    def __init__(self, project: Project, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._inbox, self._layout, self._clock = project.inbox, Layout(project.state), clock
        self._deliveries = Deliveries(store)
        self._arrivals: list[Arrival] = []
        self._announced: frozenset[str] | None = None  # domains that are arriving in the store; None until it was read
        self._warnings: tuple[str, ...] = ()
        self.is_available = False
        self.scanned_at: float | None = None
        self.next_look = math.inf
        self.use(project)

    def use(self, project: Project) -> None:
        """Take over settings; what is arriving has to settle anew."""
        intake = project.settings.intake
        self._in_place = intake.mode == "in-place"
        settling = Settling(intake.settle_seconds, intake.temporary_seconds)
        self._scanner = Scanner(self._inbox, settling, intake.scan_seconds, self._clock)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing in the inbox is on its way to us; what cannot be taken is not."""
        awaited = UNDER_WAY | {ArrivalState.ARRIVING, ArrivalState.SETTLED} if self.is_available else UNDER_WAY
        return not any(arrival.state in awaited for arrival in self._arrivals)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not taken, and why."""
        refused = [arrival.why for arrival in self._arrivals if arrival.state is ArrivalState.REFUSED]
        return (*self._warnings, *(refused if self.is_available else ()))

    def look(self, *, may_claim: bool) -> None:
        """One turn: see what came of earlier claims and what lies in the inbox; claim what is complete."""
        if self._announced is None:
            self._announced = self._load()
        for arrival in self._arrivals:
            if arrival.state is ArrivalState.RECORDED:
                self._follow_up(arrival)
            elif arrival.state is ArrivalState.CLAIMING and arrival.moved.done():
                self._end_claim(arrival)
        try:
            scan = self._scanner.scan()
        except InboxUnavailable as problem:
            self.is_available, self._warnings, self.next_look = False, (str(problem),), math.inf
            return
        self.is_available, self.scanned_at, self.next_look = True, time.time(), scan.next_look
        scan = self._deliveries.name_domains(scan)
        self._warnings = tuple(warning.message for warning in scan.warnings)
        self._arrivals = see(self._arrivals, scan, self._clock())
        names = frozenset(arrival.found.domain for arrival in self._arrivals if arrival.state in OPEN)
        self._announced = self._deliveries.announce(names, self._announced)
        if may_claim:
            self._take_settled()

    def _load(self) -> frozenset[str]:
        """After a start: what waits may have been cut short, and of a domain's drops only the newest."""
        waiting, arriving = self._deliveries.read()
        self._arrivals = [_recorded(drop, domain) for drop, domain in reversed(waiting)]
        return arriving

    def _take_settled(self) -> None:
        """Copies are made one at a time; what is only renamed goes at once."""
        if any(arrival.state is ArrivalState.CLAIMING for arrival in self._arrivals):
            return
        for arrival in self._arrivals:
            if arrival.state is ArrivalState.SETTLED:
                self._take(arrival)
            if arrival.state is ArrivalState.CLAIMING:
                return

    def _take(self, arrival: Arrival) -> None:
        """SETTLED → on, as far as it goes at once."""
        found = arrival.found
        try:
            if self._in_place:
                self._recognise(arrival)
            else:
                require_room(found.folder, self._layout.drops, found.tree.size_bytes)
        except ClaimRefused as problem:
            self._refuse(arrival, str(problem))
        if arrival.state is ArrivalState.SETTLED:
            self._record(arrival)
            self._claim(arrival)

    def _recognise(self, arrival: Arrival) -> None:
        """SETTLED → IN_PLACE where the newest drop of this folder had the same files."""
        if self._deliveries.is_known(arrival.found):
            arrival.state = ArrivalState.IN_PLACE

    def _record(self, arrival: Arrival) -> None:
        """SETTLED → RECORDED: the row comes before the rename, so that after a kill every folder has one."""
        arrival.drop, arrival.before = self._deliveries.add(arrival.found, self._layout, in_place=self._in_place)
        arrival.state = ArrivalState.RECORDED

    def _claim(self, arrival: Arrival) -> None:
        """RECORDED → CLAIMING, and on at once where a rename is enough, or nothing has to move."""
        if _is_in_place(arrival.drop):
            self._finish(arrival)
            return
        arrival.moved = begin_claim(arrival.found.folder, self._target(arrival), arrival.found.tree.fingerprint)
        arrival.state = ArrivalState.CLAIMING
        if arrival.moved.done():
            self._end_claim(arrival)

    def _end_claim(self, arrival: Arrival) -> None:
        """CLAIMING → what its move came to. Trouble that is not the drop's own is raised."""
        problem = arrival.moved.exception()
        if problem is None:
            self._finish(arrival)
            for left in arrival.moved.result():
                log.warning(left)
            return
        if os.path.lexists(self._target(arrival)):
            arrival.state = ArrivalState.RECORDED
            raise problem
        self._take_back(arrival)
        if isinstance(problem, ClaimRefused) or (isinstance(problem, OSError) and problem.errno not in NO_ROOM):
            self._refuse(arrival, str(problem))
        elif not isinstance(problem, DropChanged):
            raise problem

    def _follow_up(self, arrival: Arrival) -> None:
        """RECORDED → what the disk tells of a drop that was cut short."""
        drop, target = arrival.drop, self._target(arrival)
        if not (target.is_dir() if _is_in_place(drop) else finish_claim(self._inbox, drop.origin, target)):
            self._take_back(arrival)
        elif self._deliveries.is_arriving(drop):
            self._finish(arrival)
        else:
            arrival.state = ArrivalState.CLAIMED

    def _finish(self, arrival: Arrival) -> None:
        """→ CLAIMED or IN_PLACE: it is ours."""
        message = self._deliveries.confirm(arrival.drop)
        arrival.state = ArrivalState.IN_PLACE if _is_in_place(arrival.drop) else ArrivalState.CLAIMED
        log.info(message, extra={"domain": arrival.before.name, "drop": arrival.drop.number})

    def _take_back(self, arrival: Arrival) -> None:
        """→ ARRIVING: it did not come after all."""
        self._deliveries.remove(arrival.drop, arrival.before)
        arrival.state = ArrivalState.ARRIVING

    def _refuse(self, arrival: Arrival, why: str) -> None:
        """→ REFUSED: a person is told, and it is tried again later."""
        arrival.state, arrival.why, arrival.retry_at = ArrivalState.REFUSED, why, self._clock() + REFUSED_SECONDS

    def _target(self, arrival: Arrival) -> Path:
        """Where it goes; where it is read in place, that is where it is."""
        return self._layout.state / arrival.drop.path


def _recorded(drop: DropRecord, domain: Domain) -> Arrival:
    """A drop that waits, as the store knows it."""
    tree = Tree(drop.fingerprint, drop.files, drop.size_bytes, ready=False, temporary={})
    arrival = Arrival(Drop(Path(drop.origin), domain.name, DropState.SETTLED, "recorded", tree), ArrivalState.RECORDED)
    arrival.drop, arrival.before = drop, domain
    return arrival


def _is_in_place(drop: DropRecord) -> bool:
    return Path(drop.path).is_absolute()
