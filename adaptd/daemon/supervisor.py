"""The supervisor: watches the inbox, keeps one import and one episode going in workers, and tells how it is. Never trains.

It decides from the store alone, so that it may be killed anywhere. Each turn of its loop: hear the signals, look at the inbox,
see what became of the workers, start what is next, say how it goes, sleep until something happens.
"""

import logging
import shutil
import signal
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from adaptd.config import Project, load_project
from adaptd.daemon.arrivals import Arrivals
from adaptd.daemon.children import Child, Ended, Job, Kind, Outcome
from adaptd.daemon.layout import Layout
from adaptd.daemon.lock import Voice
from adaptd.daemon.notify import notify
from adaptd.daemon.quarantine import move_aside
from adaptd.daemon.queue import find_episode, find_import, find_late, is_open, list_paused
from adaptd.daemon.stopping import Stop
from adaptd.daemon.sweep import sweep, sweep_episodes
from adaptd.errors import ConfigError, StoreError
from adaptd.intake.watching import Watcher
from adaptd.records import EVERYTHING, DomainState, EpisodeState
from adaptd.store import Store

TURN_SECONDS = 1.0
STOP_SECONDS = 8.0
"""How long workers have for a checkpoint when the daemon stops."""
TROUBLE_SECONDS = (2.0, 30.0)
"""After the machine's trouble the next try comes this soon at first, and this late at most."""
CRASHES = 3
"""An episode whose worker dies this often at the same place is set aside."""
UNFINISHED = (EpisodeState.QUEUED, EpisodeState.TRAINING)
FIXED = ("paths", "database", "metrics", "model")
"""Sections that a reload does not change."""

log = logging.getLogger(__name__)


class Supervisor:
    """One daemon of one project, which holds the lock."""

    def __init__(self, project: Project, store: Store, voice: Voice, stop: Stop) -> None:
        self._project, self._store, self._voice, self._stop = project, store, voice, stop
        self._layout = Layout(project.state)
        self._arrivals = Arrivals(project, store)
        self._children: dict[Kind, Child] = {}
        self._started = datetime.now().astimezone()
        self._trouble = ""
        self._retry_at, self._patience = 0.0, TROUBLE_SECONDS[0]
        self._paused: dict[str, str] = {}
        self._reload = False
        self._is_idle = False
        self.health: dict[str, Any] = {}
        self.address: str | None = None
        self.warnings: list[str] = []

    def run(self, *, drain: bool = False) -> None:
        """Work until asked to stop or, draining, until nothing is left to do."""
        signal.signal(signal.SIGHUP, self._hear_reload)
        with Watcher(self._project.inbox) as watcher:
            self._stop.on_request = watcher.wake
            log.info("watching %s", self._project.inbox, extra={"address": self.address or "none"})
            self._attempt(self._recover)
            ready = False
            while not self._stop.requested:
                self._turn(watcher)
                if not ready and self._arrivals.is_available:
                    ready = True
                    notify("READY=1")
                notify(f"WATCHDOG=1\nSTATUS={self._state()}")
                if drain and self._is_idle:
                    break
                watcher.wait(self._nap())
        self._leave()

    def _turn(self, watcher: Watcher) -> None:
        if self._reload:
            self._load_settings()
        if self._trouble and time.monotonic() >= self._retry_at:
            self._trouble = ""
        for kind, child in tuple(self._children.items()):
            ended = child.find_end()
            if ended is not None:
                del self._children[kind]
                self._attempt(lambda job=child.job, ended=ended: self._note(job, ended))  # type: ignore[misc]
        self._attempt(lambda: self._arrivals.look(may_claim=self._has_room()))
        self._attempt(lambda: self._go_on(watcher))
        self._say(watcher)

    def _attempt(self, act: Callable[[], None]) -> None:
        """Do it; the machine's trouble becomes a state with its reason, and the next try comes later."""
        if time.monotonic() < self._retry_at:
            return
        try:
            act()
        except (StoreError, OSError) as problem:
            self._be_in_trouble(str(problem))

    def _be_in_trouble(self, reason: str) -> None:
        if reason != self._trouble:
            log.error("in trouble, trying again: %s", reason)
        self._trouble = reason
        self._retry_at = time.monotonic() + self._patience
        self._patience = min(self._patience * 2, TROUBLE_SECONDS[1])

    def _recover(self) -> None:
        """What a killed process left half done is finished or removed."""
        sweep(self._store, self._layout)
        move_aside(self._store, self._layout)
        self._arrivals.recover()

    def _has_room(self) -> bool:
        return shutil.disk_usage(self._layout.state).free >= self._project.settings.intake.min_free_bytes

    def _note(self, job: Job, ended: Ended) -> None:
        """A worker is gone."""
        extra = {"domain": job.domain, str(job.kind): job.key, "outcome": str(ended.outcome)}
        log.log(logging.INFO if ended.outcome is Outcome.DONE else logging.WARNING, ended.reason, extra=extra)
        if ended.outcome is Outcome.TROUBLE:
            self._be_in_trouble(ended.reason)
        elif ended.outcome is Outcome.CRASHED and not self._stop.requested:
            self._count_crash(job, ended.reason)
        elif ended.outcome is Outcome.DONE:
            self._patience = TROUBLE_SECONDS[0]

    def _count_crash(self, job: Job, reason: str) -> None:
        with self._store.writing() as tx:
            is_import = job.kind is Kind.IMPORT
            domain_id = job.key if is_import else tx.episodes.get(job.key).domain_id
            crashes = tx.drops.count_crash(domain_id) if is_import else tx.episodes.count_crash(job.key)
            episode_id = None if is_import else job.key
            tx.events.add("worker-died", reason, domain_id=domain_id, episode_id=episode_id, crashes=crashes)
            if crashes < CRASHES:
                return
            why = f"its worker died {crashes} times at the same place, the last time: {reason}; `adaptd retry {job.domain}`"
            if not is_import:
                tx.episodes.set_aside(job.key, why)
                tx.checkpoints.forget_all(job.key)
            tx.domains.set_state(domain_id, DomainState.FAILED, why)
            tx.events.add("set-aside", why, domain_id=domain_id, episode_id=episode_id)

    def _go_on(self, watcher: Watcher) -> None:
        """Stop what must not go on, start what is next."""
        with self._store.reading() as tx:
            self._paused = list_paused(tx)
            late = find_late(tx)
            domain = find_import(tx)
            episode = find_episode(tx, self._paused)
            training = self._children.get(Kind.EPISODE)
            taken = training is not None and tx.episodes.get(training.job.key).state not in UNFINISHED
            name = tx.domains.get(episode.domain_id).name if episode else ""
            has_model = tx.versions.find_latest() is not None
        if late:
            with self._store.writing() as tx:
                for done in late:
                    tx.domains.set_state(done.id, DomainState.SETTLED)
        may_train = is_open(self._project.settings.intake.window, datetime.now().astimezone())
        self._restrain(taken=taken, may_train=may_train)
        may_start = self._has_room() and time.monotonic() >= self._retry_at
        if domain is not None and has_model and may_start and Kind.IMPORT not in self._children:
            self._start(Job(Kind.IMPORT, domain.id, domain.name), watcher)
        if episode is not None and may_train and may_start and Kind.EPISODE not in self._children:
            self._start(Job(Kind.EPISODE, episode.id, name), watcher)
        is_waiting = (domain is not None and has_model) or late or (episode is not None and may_train)
        self._is_idle = not self._children and not is_waiting and self._arrivals.is_quiet

    def _restrain(self, *, taken: bool, may_train: bool) -> None:
        child = self._children.get(Kind.EPISODE)
        if child is None:
            return
        if taken and child.find_end() is None:
            child.kill()
            child.wait(STOP_SECONDS)
            sweep_episodes(self._store, self._layout)
        elif EVERYTHING in self._paused or child.job.domain in self._paused or not may_train:
            child.ask_to_stop()

    def _start(self, job: Job, watcher: Watcher) -> None:
        child = Child(self._project.root, job, watcher.wake)
        self._children[job.kind] = child
        log.info("%s begins", job.kind, extra={"domain": job.domain, str(job.kind): job.key, "pid": child.pid})

    def _nap(self) -> float:
        return max(0.0, min(self._arrivals.next_look - time.monotonic(), TURN_SECONDS))

    def _state(self) -> str:
        if self._trouble or not self._arrivals.is_available or not self._has_room():
            return "degraded"
        if Kind.EPISODE in self._children:
            return "training"
        return "paused" if EVERYTHING in self._paused else "idle"

    def _say(self, watcher: Watcher) -> None:
        warnings = [*self.warnings, *self._arrivals.warnings]
        if self._trouble:
            warnings.append(f"{self._trouble}; trying again by itself")
        if not self._has_room():
            least = self._project.settings.intake.min_free_bytes
            warnings.append(f"less than {least:,} bytes are free for {self._layout.state}: waiting until there is room")
        if watcher.trouble:
            warnings.append(watcher.trouble)
        self.health = {
            "state": self._state(),
            "warnings": list(dict.fromkeys(warnings)),
            "started_at": self._started.isoformat(timespec="seconds"),
            "address": self.address,
            "scanned_at": self._arrivals.scanned_at,
        }
        self._voice.say(self.health)

    def _hear_reload(self, *_: object) -> None:
        self._reload = True

    def _load_settings(self) -> None:
        """Take over what can change while running; a file that is wrong changes nothing."""
        self._reload = False
        try:
            project = load_project(self._project.root)
        except ConfigError as problem:
            self.warnings = [f"the settings were not reloaded: {problem}"]
            log.warning("the settings were not reloaded: %s", problem)
            return
        old, new = self._project.settings, project.settings
        changed = [section for section in FIXED if getattr(old, section) != getattr(new, section)]
        self.warnings = [f"a change of [{section}] takes effect at the next start" for section in changed]
        if self._arrivals.is_quiet and old.intake != new.intake:
            self._arrivals.close()
            self._arrivals = Arrivals(project, self._store)
        self._project = project
        log.info("settings reloaded")

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
        self._arrivals.close()
        log.info("stopped in order")
