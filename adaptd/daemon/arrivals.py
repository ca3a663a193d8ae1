"""A folder in the inbox from first sight to claim. What lies there is the scanner's to say, moving it is `claim`'s work.

Each folder has one `Arrival` in one state. Only the functions of this table change it:

| from     | what happens                                                       | to                | by           |
| -------- | ------------------------------------------------------------------ | ----------------- | ------------ |
| (new)    | a scan shows it: its domain is announced                           | ARRIVING          | `see`        |
| ARRIVING | it is complete                                                     | SETTLED           | `see`        |
| SETTLED  | it changes again                                                   | ARRIVING          | `see`        |
| SETTLED  | it is read in place, and these files were taken before             | IN_PLACE          | `_recognise` |
| SETTLED  | the store has a row for it, by which a start after a kill finds it | RECORDED          | `_record`    |
| RECORDED | it is read in place, nothing moves: next is the import             | IN_PLACE          | `_finish`    |
| RECORDED | its move begins                                                    | CLAIMING          | `_claim`     |
| CLAIMING | it lies in the state folder: next is the import                    | CLAIMED           | `_finish`    |
| CLAIMING | it cannot be moved, or a copy has no room: its row goes            | REFUSED           | `_refuse`    |
| CLAIMING | it changed, or the disk is full: its row goes, its domain is what it was | ARRIVING    | `_take_back` |
| CLAIMING | it was copied, but cannot be removed from the inbox                | RECORDED          | `_delay`     |
| RECORDED | what is left to do for it fails again: told, counted, tried later  | RECORDED          | `_delay`     |
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
from adaptd.daemon.poison import CRASHES
from adaptd.errors import ClaimRefused, DropChanged, InboxUnavailable
from adaptd.intake.claiming import begin_claim, finish_claim
from adaptd.intake.scanner import Drop, Scan, Scanner
from adaptd.intake.settling import DropState, Settling
from adaptd.intake.tree import Tree
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import Domain, DropRecord
from adaptd.store import Store
from adaptd.text import printable

REFUSED_SECONDS = 30.0
"""A drop that cannot be taken is tried again after this time."""
DELAYED_SECONDS = (30.0, 900.0)
"""One that was taken, but not in full: this soon at first, and this late at most."""
AWAY_SECONDS = 5.0
"""Where the inbox that a drop was copied from is not there."""
MACHINE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Trouble that no drop is to blame for."""
LOOK_SECONDS = 1.0
"""A turn takes no further drop after this time: the daemon has others to listen to."""
WARNINGS = 20
"""So many drops that cannot be taken are told one by one."""

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
    `why` it was refused or delayed, and when it is tried again, is of REFUSED and RECORDED; `delays` counts the latter.
    """

    found: Drop
    state: ArrivalState = ArrivalState.ARRIVING
    drop: DropRecord = field(init=False, repr=False)
    before: Domain = field(init=False, repr=False)
    moved: Future[tuple[str, ...]] = field(init=False, repr=False)
    why: str = ""
    retry_at: float = 0.0
    delays: int = 0

    @property
    def is_delayed(self) -> bool:
        """Whether what is left to do for it failed the last time."""
        return self.state is ArrivalState.RECORDED and self.delays > 0


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
        self._warnings: dict[str, str] = {}
        self._told: frozenset[str] = frozenset()
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
        return not any(arrival.state in awaited and not arrival.is_delayed for arrival in self._arrivals)

    @property
    def moving(self) -> frozenset[int]:
        """The ids of domains whose newest drop is on its way: an import would not see all of it."""
        under_way = (arrival for arrival in self._arrivals if arrival.state in UNDER_WAY and arrival.delays < CRASHES)
        return frozenset(arrival.drop.domain_id for arrival in under_way)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not taken, and why."""
        return tuple(self._warnings.values())

    @property
    def refused(self) -> tuple[str, ...]:
        """Why drops are not taken, or not in full."""
        return tuple(self._list_refused().values())

    def take_news(self) -> tuple[str, ...]:
        """Those of the warnings that are of another kind, or of another drop, than any before them."""
        news = tuple(message for key, message in self._warnings.items() if key not in self._told)
        self._told = frozenset(self._warnings)
        return news

    def look(self, *, may_claim: bool) -> None:
        """One turn: see what came of earlier claims and what lies in the inbox; claim what is complete."""
        if self._announced is None:
            self._announced = self._load()
        deadline = time.monotonic() + LOOK_SECONDS
        for arrival in self._arrivals:
            if arrival.state is ArrivalState.RECORDED and self._clock() >= arrival.retry_at and time.monotonic() < deadline:
                self._follow_up(arrival)
            elif arrival.state is ArrivalState.CLAIMING and arrival.moved.done():
                self._end_claim(arrival)
        try:
            scan = self._scanner.scan()
        except InboxUnavailable as problem:
            self.is_available, self._warnings, self.next_look = False, {"inbox": str(problem)}, math.inf
            return
        self.is_available, self.scanned_at, self.next_look = True, time.time(), scan.next_look
        scan = self._deliveries.name_domains(scan)
        self._arrivals = see(self._arrivals, scan, self._clock())
        names = frozenset(arrival.found.domain for arrival in self._arrivals if arrival.state in OPEN)
        self._announced = self._deliveries.announce(names, self._announced)
        if may_claim:
            self._take_settled(deadline)
        self._warnings = {warning.kind: warning.message for warning in scan.warnings} | self._list_refused()

    @property
    def waiting(self) -> dict[str, str]:
        """By domain, what keeps a drop from being complete, such as a temporary file; of very many the first few."""
        arriving = [one.found for one in self._arrivals if one.state is ArrivalState.ARRIVING]
        return {found.domain: found.why for found in arriving[:WARNINGS]}

    def _list_refused(self) -> dict[str, str]:
        """Why drops are not taken, or not in full, by drop; of very many how many there are."""
        refused = [one for one in self._arrivals if one.state is ArrivalState.REFUSED or one.is_delayed]
        told = {f"{printable(one.found.folder)}: {one.why}": one.why for one in refused[:WARNINGS]}
        if len(refused) > WARNINGS:
            told["refused"] = f"{len(refused) - WARNINGS:,} more drops cannot be taken: `adaptd explain DOMAIN` tells why"
        return told

    def _load(self) -> frozenset[str]:
        """After a start: what waits may have been cut short, and of a domain's drops only the newest."""
        waiting, arriving = self._deliveries.read()
        self._arrivals = [_recorded(drop, domain) for drop, domain in reversed(waiting)]
        return arriving

    def _take_settled(self, deadline: float) -> None:
        """Copies are made one at a time; what is only renamed goes at once, as far as the time of one turn goes."""
        if any(arrival.state is ArrivalState.CLAIMING for arrival in self._arrivals):
            return
        for arrival in self._arrivals:
            if arrival.state is ArrivalState.SETTLED and arrival.found.domain in (self._announced or ()):
                self._take(arrival)
            if arrival.state is ArrivalState.CLAIMING or time.monotonic() >= deadline:
                return

    def _take(self, arrival: Arrival) -> None:
        """SETTLED → on, as far as it goes at once."""
        if self._in_place:
            self._recognise(arrival)
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
        elif os.path.lexists(self._target(arrival)):
            self._delay(arrival, problem)
        else:
            self._take_back(arrival)
            if _is_of_the_drop(problem):
                self._refuse(arrival, str(problem))
            elif not isinstance(problem, DropChanged):
                raise problem

    def _follow_up(self, arrival: Arrival) -> None:
        """RECORDED → what the disk tells of a drop that was cut short."""
        drop, target = arrival.drop, self._target(arrival)
        try:
            is_here = target.is_dir() if _is_in_place(drop) else finish_claim(self._inbox, drop.origin, target)
        except (ClaimRefused, DropChanged, InboxUnavailable, OSError) as problem:
            self._delay(arrival, problem)
            return
        if not is_here:
            self._take_back(arrival)
        elif arrival.delays >= CRASHES or self._deliveries.is_arriving(drop):
            self._finish(arrival)
        else:
            arrival.state = ArrivalState.CLAIMED

    def _delay(self, arrival: Arrival, problem: BaseException) -> None:
        """→ RECORDED: it is ours, but something is left to do that cannot be done. Its domain fails where that stays so."""
        arrival.state = ArrivalState.RECORDED
        if not (_is_of_the_drop(problem) or isinstance(problem, DropChanged | InboxUnavailable)):
            raise problem
        first, most = DELAYED_SECONDS
        arrival.why = f"{arrival.before.name}: drop {arrival.drop.number} cannot be taken in full: {problem}"
        if isinstance(problem, InboxUnavailable):  # not the drop's fault
            arrival.retry_at, arrival.delays = self._clock() + AWAY_SECONDS, max(arrival.delays, 1)
            return
        arrival.retry_at = self._clock() + min(first * 2**arrival.delays, most)
        arrival.delays += 1
        if arrival.delays <= CRASHES:
            self._deliveries.delay(arrival.drop, arrival.why)

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
        self._deliveries.refuse(arrival.found.domain, why, is_new=arrival.why != why)
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


def _is_of_the_drop(problem: BaseException) -> bool:
    """Whether trouble is one drop's own; else it is the machine's, or nobody's."""
    return isinstance(problem, ClaimRefused) or (isinstance(problem, OSError) and problem.errno not in MACHINE)


def _is_in_place(drop: DropRecord) -> bool:
    return Path(drop.path).is_absolute()
