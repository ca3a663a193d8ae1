"""The supervisor: watches the inbox, keeps one import and one episode going in workers, and tells how it is. Never trains.

It decides from the store alone, so that it may be killed anywhere. Each turn of its loop: hear the signals, look at the inbox,
see what became of the workers, start what is next, say how it goes, sleep until something happens.
"""

import logging
import shutil
import signal
import time
from datetime import datetime
from typing import Any

from adaptd.care.restore import finish_interrupted
from adaptd.daemon.arrivals import Arrivals
from adaptd.daemon.children import Child, Ended, Job, Kind, Outcome
from adaptd.daemon.notify import notify
from adaptd.daemon.patience import Patience
from adaptd.daemon.poison import note_end
from adaptd.daemon.queue import Plan, is_cancelled, is_open, read_plan
from adaptd.episodes.sweep import sweep, sweep_episodes
from adaptd.errors import ConfigError, InboxUnavailable
from adaptd.imports.quarantine import move_to_quarantine
from adaptd.intake.watching import Watcher
from adaptd.project.layers import Project, load_project
from adaptd.project.layout import Layout
from adaptd.project.lock import Voice
from adaptd.records import EVERYTHING
from adaptd.releases.repositories import find_unpublished
from adaptd.signals import Stop
from adaptd.store import Store

TURN_SECONDS = 1.0
STOP_SECONDS = 7.0
"""How long workers have for a checkpoint when the daemon stops."""
FIXED = ("paths", "model", "metrics", "database", "logging")
"""Sections that a reload does not change."""

log = logging.getLogger(__name__)


class Supervisor:
    """One daemon of one project, which holds the lock."""

    def __init__(self, project: Project, store: Store, voice: Voice, stop: Stop) -> None:
        self._project, self._store, self._voice, self._stop = project, store, voice, stop
        self._layout = Layout(project.state)
        self._arrivals, self._watcher = Arrivals(project, store), Watcher(project.inbox)
        self._children: dict[Kind, Child] = {}
        self._fallen: list[tuple[Job, Ended]] = []
        self._plan = Plan()
        self._intake, self._queue, self._workers = Patience("the intake"), Patience("the queue"), Patience("a worker")
        self._started = datetime.now().astimezone()
        self._recovered = self._reload = self._has_room = self._is_idle = False
        self._not_reloaded: list[str] = []
        self.health: dict[str, Any] = {}
        self.address: str | None = None
        self.warnings: list[str] = []

    def run(self, *, drain: bool = False) -> None:
        """Work until asked to stop or, draining, until nothing is left to do.

        Raises:
            InboxUnavailable: draining, where what is in the inbox cannot be known.
        """
        signal.signal(signal.SIGHUP, self._hear_reload)
        self._stop.on_request = self._watcher.wake
        log.info("watching %s", self._project.inbox, extra={"address": self.address or "none"})
        ready = "READY=1\n"
        with self._watcher:
            while not self._stop.requested:
                self._turn()
                notify(f"{ready}WATCHDOG=1\nSTATUS={self._state()}")
                ready = ""
                if drain and self._is_idle:
                    break
                self._watcher.wait(self._nap())
        self._leave()
        if drain and not self._stop.requested and not self._arrivals.is_available:
            raise InboxUnavailable("; ".join(self._arrivals.warnings))

    def _turn(self) -> None:
        if self._reload:
            self._load_settings()
        self._has_room = self._measure_room() >= self._project.settings.intake.min_free_bytes
        for child in tuple(self._children.values()):
            ended = child.find_end()
            if ended is not None:
                self._bury(child.job, ended)
        self._intake.attempt(lambda: self._arrivals.look(may_claim=self._has_room))
        self._queue.attempt(self._go_on)
        self._say()

    def _measure_room(self) -> int:
        try:
            return shutil.disk_usage(self._layout.state).free
        except OSError:  # what stands in the way is told by whoever needs the folder
            return 0

    def _bury(self, job: Job, ended: Ended) -> None:
        """A worker is gone."""
        del self._children[job.kind]
        extra = {"domain": job.domain, str(job.kind): job.key, "outcome": str(ended.outcome)}
        log.log(logging.INFO if ended.outcome is Outcome.DONE else logging.WARNING, ended.reason, extra=extra)
        if ended.outcome is Outcome.TROUBLE or (job.kind is Kind.PUBLISH and ended.outcome is Outcome.CRASHED):
            self._workers.postpone(ended.reason)
        else:
            self._workers.clear()
        if ended.outcome in {Outcome.CRASHED, Outcome.TAKEN} and job.kind is not Kind.PUBLISH:
            self._fallen.append((job, ended))

    def _go_on(self) -> None:
        """Clear up after the dead, stop what must not go on, start what is next."""
        if not self._recovered:
            sweep(self._store, self._layout)
            move_to_quarantine(self._store, self._layout)
            finish_interrupted(self._store, self._layout)
            self._recovered = True
        self._clear_up()
        with self._store.reading() as tx:
            self._plan = read_plan(tx)
            cancelled = [child for child in self._children.values() if is_cancelled(tx, child.job)]
        may_train = is_open(self._project.settings.intake.window, datetime.now().astimezone())
        for child in tuple(self._children.values()):
            if child in cancelled:
                self._give_up(child)
            elif self._plan.holds(child.job) or not (may_train or child.job.kind is Kind.IMPORT):
                child.ask_to_stop()
        wanted = [*self._list_unpublished(), *self._plan.jobs]
        wanted = [job for job in wanted if may_train or job.kind is not Kind.EPISODE]
        for job in wanted:
            if job.kind not in self._children and self._has_room and not self._workers.trouble:
                self._start(job)
        self._is_idle = not (self._children or wanted or self._intake.trouble) and self._arrivals.is_quiet

    def _list_unpublished(self) -> list[Job]:
        """The promoted version where its files are gone: it has to be exported again."""
        version = find_unpublished(self._project, self._store)
        return [] if version is None else [Job(Kind.PUBLISH, version.version, f"version {version.version}")]

    def _clear_up(self) -> None:
        while self._fallen:
            job, ended = self._fallen[0]
            with self._store.writing() as tx:
                note_end(tx, job, ended)
            if job.kind is Kind.EPISODE:
                sweep_episodes(self._store, self._layout)
            self._fallen.pop(0)

    def _give_up(self, child: Child) -> None:
        """Its work was cancelled: no checkpoint is needed."""
        child.kill()
        if child.wait(STOP_SECONDS):
            self._bury(child.job, Ended(Outcome.TAKEN, "it was cancelled"))
            self._clear_up()

    def _start(self, job: Job) -> None:
        child = self._children[job.kind] = Child(self._project, job, self._watcher.wake)
        log.info("%s begins", job.kind, extra={"domain": job.domain, str(job.kind): job.key, "pid": child.pid})

    def _nap(self) -> float:
        return max(0.0, min(self._arrivals.next_look - time.monotonic(), TURN_SECONDS))

    def _list_troubles(self) -> list[str]:
        troubles = [
            f"{work.trouble}; trying again by itself" for work in (self._intake, self._queue, self._workers) if work.trouble
        ]
        if not self._has_room:
            least = self._project.settings.intake.min_free_bytes
            troubles.append(f"less than {least:,} bytes are free for {self._layout.state}: waiting until there is room")
        return troubles

    def _state(self) -> str:
        if self._list_troubles() or not self._arrivals.is_available:
            return "degraded"
        if Kind.EPISODE in self._children:
            return "training"
        return "paused" if EVERYTHING in self._plan.paused else "idle"

    def _say(self) -> None:
        warnings = [*self.warnings, *self._not_reloaded, *self._arrivals.warnings, *self._list_troubles()]
        warnings += [self._watcher.trouble] if self._watcher.trouble else []
        for warning in self._arrivals.warnings:
            if warning not in self.health.get("warnings", ()):
                log.warning(warning)
        started = self._started.isoformat(timespec="seconds")
        said = {"state": self._state(), "warnings": list(dict.fromkeys(warnings)), "started_at": started, "address": self.address}
        self.health = said | {"scanned_at": self._arrivals.scanned_at}
        # Not when it scanned: an idle daemon need not write to the disk every second.
        self._voice.say(said)

    def _hear_reload(self, *_: object) -> None:
        self._reload = True
        self._watcher.wake()

    def _load_settings(self) -> None:
        """Take over what can change while running; a file that is wrong changes nothing."""
        self._reload = False
        try:
            project = load_project(self._project.root)
        except (ConfigError, OSError) as problem:
            self._not_reloaded = [f"the settings were not reloaded: {problem}"]
            log.warning("the settings were not reloaded: %s", problem)
            return
        old, new = self._project.settings, project.settings
        changed = [section for section in FIXED if getattr(old, section) != getattr(new, section)]
        self._not_reloaded = [f"a change of [{section}] takes effect at the next start" for section in changed]
        kept = {section: getattr(old, section) for section in changed}
        self._project = Project(project.root, new.model_copy(update=kept), project.origins)
        if old.intake != new.intake:
            self._arrivals.use(self._project)
        log.info("settings reloaded", extra={"not_before_the_next_start": changed})

    def _leave(self) -> None:
        """In order: workers write their checkpoints, then the state says that nobody is here."""
        notify("STOPPING=1")
        for child in self._children.values():
            child.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS
        for child in self._children.values():
            if not child.wait(max(0.0, deadline - time.monotonic())):
                child.kill()
                child.wait(STOP_SECONDS)
        log.info("stopped in order")
