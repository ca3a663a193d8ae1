"""The supervisor: watches the inbox, keeps one import and one episode going in workers, and reports how it is. Never trains.

It decides from the store alone, so that it may be killed anywhere. Its loop is `run`.
"""

import logging
import shutil
import signal
import time
from datetime import datetime
from typing import Any

from adaptd.care.restore import finish_interrupted
from adaptd.daemon.arrivals import Arrivals
from adaptd.daemon.children import Child, Children
from adaptd.daemon.draining import Ended, find_ended, list_failures
from adaptd.daemon.jobs import Job, JobEnd, JobKind, JobOutcome
from adaptd.daemon.labels import LabelWatch
from adaptd.daemon.latecomers import Latecomers
from adaptd.daemon.notify import notify
from adaptd.daemon.patience import Patience
from adaptd.daemon.poison import record_end
from adaptd.daemon.queue import NextJobs, is_cancelled, is_open, read_next_jobs
from adaptd.episodes.sweep import sweep, sweep_episodes
from adaptd.errors import ConfigError, InboxUnavailable, StoreError
from adaptd.imports.quarantine import move_to_quarantine
from adaptd.intake.watching import Watcher
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.lock import LockFile
from adaptd.project.reload import reload_project
from adaptd.records import EVERYTHING
from adaptd.releases.repositories import find_unpublished, list_undeleted
from adaptd.signals import Stop
from adaptd.store import Store

TURN_SECONDS = 1.0
STOP_SECONDS = 7.0
"""How long workers have for a checkpoint when the daemon stops."""
DRAIN_TRIES = 5
"""What did not go well this often in a row, over half a minute, ends a drain."""
QUARANTINE_SECONDS = 600.0
"""What could not be moved into quarantine is tried again this often."""

log = logging.getLogger(__name__)


class Supervisor:
    """One daemon of one project, which holds the lock."""

    def __init__(self, project: Project, store: Store, lock: LockFile, stop: Stop) -> None:
        self._project, self._store, self._lock, self._stop = project, store, lock, stop
        self._layout = Layout(project.state)
        self._arrivals, self._watcher = Arrivals(project, store), Watcher(project.inbox)
        self._children = Children(self._watcher.wake)
        self._latecomers, self._labels = Latecomers(project, store), LabelWatch()
        self._ended: list[tuple[Job, JobEnd]] = []  # not yet in the store
        self._next, self._unmeasured = NextJobs(), list[Job]()
        self._intake, self._queue, self._workers = Patience("the intake"), Patience("the queue"), Patience("a worker")
        self._started = datetime.now().astimezone()
        self._is_recovered = self._has_room = self._is_idle = False
        self._undeleted, self._must_list_undeleted = tuple[str, ...](), True
        self._must_reload, self._reload_warnings = False, list[str]()
        self._stuck: tuple[str, ...] = ()  # files that cannot be moved into quarantine
        self._quarantine_at = 0.0
        self.health: dict[str, Any] = {}
        self.address: str | None = None
        self.warnings: list[str] = []

    def run(self, *, drain: bool = False) -> tuple[str, ...]:
        """Work until asked to stop or, draining, until nothing is left to do, or nothing that could be done.

        Returns:
            Draining, what came to nothing meanwhile, or could not be done, in sentences.

        Raises:
            InboxUnavailable: draining, where what is in the inbox cannot be known.
        """
        ended = self._find_ended() if drain else {}
        signal.signal(signal.SIGHUP, self._request_reload)
        self._stop.on_request = self._watcher.wake
        log.info("watching %s", self._project.inbox, extra={"address": self.address or "none"})
        ready = "READY=1\n"
        with self._watcher:
            while not self._stop.requested:
                if self._must_reload:
                    self._reload_settings()
                self._has_room = self._measure_room() >= self._project.settings.intake.min_free_bytes
                self._note_ends(self._children.collect_ended())
                self._intake.attempt(lambda: self._arrivals.look(may_claim=self._has_room))
                self._queue.attempt(self._advance)
                self._report_health()
                notify(f"{ready}WATCHDOG=1\nSTATUS={self._state()}")
                ready = ""
                if drain and (self._is_idle or self._is_stuck):
                    break
                self._watcher.wait(self._seconds_to_next_turn())
        notify("STOPPING=1")
        self._children.stop(STOP_SECONDS)
        log.info("stopped in order")
        if drain and not self._stop.requested and not self._arrivals.is_available:
            raise InboxUnavailable("; ".join(self._arrivals.warnings))
        return self._list_failures(ended) if drain and not self._stop.requested else ()

    @property
    def _is_stuck(self) -> bool:
        """Whether nothing is at work, and what stands in the way does not go away by itself."""
        in_vain = any(work.tries >= DRAIN_TRIES for work in (self._intake, self._queue, self._workers))
        return not self._children.list_running() and (in_vain or not self._has_room)

    def _find_ended(self) -> Ended:
        try:
            with self._store.reading() as tx:
                return find_ended(tx)
        except StoreError:  # told by whoever needs the database next
            return {}

    def _list_failures(self, before: Ended) -> tuple[str, ...]:
        troubles = [] if self._is_idle else self._list_troubles()
        try:
            with self._store.reading() as tx:
                return (*list_failures(tx, before), *self._arrivals.refused, *troubles)
        except StoreError as problem:
            return (*troubles, str(problem))

    def _measure_room(self) -> int:
        try:
            return shutil.disk_usage(self._layout.state).free
        except OSError:  # what stands in the way is told by whoever needs the folder
            return 0

    def _seconds_to_next_turn(self) -> float:
        # In trouble the inbox is not looked at, and when that is due says nothing.
        due = TURN_SECONDS if self._intake.trouble else self._arrivals.next_look - time.monotonic()
        return max(0.0, min(due, TURN_SECONDS))

    def _note_ends(self, ended: list[tuple[Job, JobEnd]]) -> None:
        """Workers are gone: whether the machine is in trouble, and what has to be recorded."""
        self._must_list_undeleted = self._must_list_undeleted or bool(ended)
        for job, end in ended:
            if job.kind is JobKind.IMPORT:
                self._quarantine_at = 0.0
            if job.kind is JobKind.MEASURE:
                self._labels.note_end(end)
                continue
            if end.outcome is JobOutcome.TROUBLE or (job.kind is JobKind.PUBLISH and end.outcome is JobOutcome.CRASHED):
                self._workers.postpone(end.reason)
            else:
                self._workers.clear()
            if end.outcome in {JobOutcome.CRASHED, JobOutcome.TAKEN} and job.kind is not JobKind.PUBLISH:
                self._ended.append((job, end))

    def _advance(self) -> None:
        """Clear up after a kill and after workers, stop what must not go on, start what is next."""
        if not self._is_recovered:
            sweep(self._store, self._layout)
            self._latecomers.recover()
            for trouble in finish_interrupted(self._store, self._layout, self._project.inbox):
                log.warning(trouble)
            self._is_recovered = True
        if self._must_list_undeleted:
            self._undeleted = list_undeleted(self._project, self._store)
            self._must_list_undeleted = False
        self._record_ends()
        self._move_to_quarantine()
        self._latecomers.look()
        with self._store.reading() as tx:
            self._next, self._unmeasured = read_next_jobs(tx, self._arrivals.moving), self._labels.look(tx)
            cancelled = [child for child in self._children.list_running() if is_cancelled(tx, child.job)]
        may_train = is_open(self._project.settings.intake.window, datetime.now().astimezone())
        self._stop_unwanted(cancelled, may_train=may_train)
        self._start_wanted(may_train=may_train)

    def _move_to_quarantine(self) -> None:
        """At the start, after every import and now and then: what a killed import left, and what could not be moved before."""
        if time.monotonic() >= self._quarantine_at and not self._children.is_running(JobKind.IMPORT):
            self._stuck = move_to_quarantine(self._store, self._layout)
            self._quarantine_at = time.monotonic() + QUARANTINE_SECONDS

    def _record_ends(self) -> None:
        while self._ended:
            job, end = self._ended[0]
            with self._store.writing() as tx:
                record_end(tx, job, end)
            if job.kind is JobKind.EPISODE:
                sweep_episodes(self._store, self._layout)
            self._ended.pop(0)

    def _stop_unwanted(self, cancelled: list[Child], *, may_train: bool) -> None:
        for child in self._children.list_running():
            if child in cancelled:
                self._note_ends(self._children.cancel(child, STOP_SECONDS))
                self._record_ends()
            elif self._next.is_paused(child.job) or (child.job.kind is JobKind.EPISODE and not may_train):
                child.request_stop()

    def _start_wanted(self, *, may_train: bool) -> None:
        wanted = [*self._list_unpublished(), *self._next.jobs, *self._unmeasured]
        wanted = [job for job in wanted if may_train or job.kind is not JobKind.EPISODE]
        for job in wanted:
            if not self._children.is_running(job.kind) and self._has_room and not self._workers.trouble:
                self._children.start(self._project, job)
                self._latecomers.look_soon(job.domain)
        self._is_idle = not (self._children.list_running() or wanted or self._intake.trouble) and self._arrivals.is_quiet
        self._is_idle = self._is_idle and self._latecomers.is_quiet

    def _list_unpublished(self) -> list[Job]:
        """The promoted version where its files are gone: it has to be exported again."""
        version = find_unpublished(self._project, self._store)
        return [] if version is None else [Job(JobKind.PUBLISH, version.version, number=version.version)]

    def _report_health(self) -> None:
        warnings = [*self.warnings, *self._reload_warnings, *self._arrivals.warnings, *self._stuck, *self._list_troubles()]
        warnings += [*self._latecomers.warnings, *self._undeleted]
        warnings += [self._watcher.trouble] if self._watcher.trouble else []
        for warning in self._arrivals.take_news():
            log.warning(warning)
        started = self._started.isoformat(timespec="seconds")
        health = {
            "state": self._state(),
            "warnings": list(dict.fromkeys(warnings)),
            "started_at": started,
            "address": self.address,
            "waiting": self._arrivals.waiting,
        }
        self.health = health | {"scanned_at": self._arrivals.scanned_at}
        # Not when it scanned: an idle daemon need not write to the disk every second.
        self._lock.write_health(health)

    def _state(self) -> str:
        if self._list_troubles() or not self._arrivals.is_available:
            return "degraded"
        if self._children.is_running(JobKind.EPISODE):
            return "training"
        return "paused" if EVERYTHING in self._next.paused else "idle"

    def _list_troubles(self) -> list[str]:
        troubles = [
            f"{work.trouble}; trying again by itself" for work in (self._intake, self._queue, self._workers) if work.trouble
        ]
        if not self._has_room:
            least = self._project.settings.intake.min_free_bytes
            troubles.append(f"less than {least:,} bytes are free for {self._layout.state}: waiting until there is room")
        return troubles

    def _request_reload(self, *_: object) -> None:
        self._must_reload = True
        self._watcher.wake()

    def _reload_settings(self) -> None:
        """Take over what can change while running; a file that is wrong changes nothing."""
        self._must_reload = False
        try:
            project, waiting = reload_project(self._project)
        except (ConfigError, OSError) as problem:
            self._reload_warnings = [f"the settings were not reloaded: {problem}"]
            log.warning("the settings were not reloaded: %s", problem)
            return
        self._reload_warnings = [f"a change of [{section}] takes effect at the next start" for section in waiting]
        if project.settings.intake != self._project.settings.intake:
            self._arrivals.use(project)
            self._latecomers.use(project)
        self._project = project
        log.info("settings reloaded", extra={"not_before_the_next_start": waiting})
