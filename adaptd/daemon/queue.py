"""What to do next, read from the store: which drops to import, which episode to train. Starts nothing."""

from dataclasses import dataclass, field
from datetime import datetime, time

from adaptd.daemon.jobs import Job, JobKind
from adaptd.records import EVERYTHING, DomainState, EpisodeState, VersionState
from adaptd.store import Transaction

OVER = frozenset({DomainState.DONE, DomainState.REJECTED})
"""An episode is committed: what waits is the next delivery."""


@dataclass(frozen=True, slots=True)
class NextJobs:
    """What is next of each kind, and what is paused: domains by name, or * for everything."""

    jobs: tuple[Job, ...] = ()
    paused: frozenset[str] = field(default_factory=frozenset)

    def is_paused(self, job: Job) -> bool:
        """Whether somebody paused this. Imports go on."""
        return job.kind is JobKind.EPISODE and not self.paused.isdisjoint({EVERYTHING, job.domain})


def read_next_jobs(tx: Transaction, moving: frozenset[int] = frozenset()) -> NextJobs:
    """What the store says. Drops wait until a version is promoted, and until no other of their domain is `moving`."""
    paused = frozenset(pause.scope for pause in tx.pauses.list_all())
    has_model = tx.versions.find_latest(VersionState.PROMOTED) is not None
    found = (_find_import(tx, moving) if has_model else None, _find_episode(tx, paused))
    return NextJobs(tuple(job for job in found if job is not None), paused)


def is_cancelled(tx: Transaction, job: Job) -> bool:
    """Whether a person gave up what a worker is doing."""
    if job.kind in {JobKind.PUBLISH, JobKind.MEASURE}:
        return False
    if job.kind is JobKind.IMPORT:
        return tx.domains.get(job.key).state is DomainState.SKIPPED
    return tx.episodes.get(job.key).state is EpisodeState.CANCELLED


def is_open(window: str, now: datetime) -> bool:
    """Whether the time of day lies in a window such as 22:00-06:00; an empty one is always open."""
    if not window:
        return True
    start, end = (time.fromisoformat(part) for part in window.split("-"))
    moment = now.time()
    return start <= moment < end if start <= end else moment >= start or moment < end


def _find_import(tx: Transaction, moving: frozenset[int]) -> Job | None:
    """The waiting drops that came first, of a domain that is settled, or done with its earlier ones.

    Those of a domain that is done may wait for more, too: then an import has seen all of them.
    """
    waiting: dict[int, bool] = {}  # of each domain, whether one of its drops was not looked at
    for drop in tx.drops.list_waiting():
        if drop.domain_id not in moving:
            waiting[drop.domain_id] = waiting.get(drop.domain_id, False) or drop.taken is None
    for key, has_new in waiting.items():
        domain = tx.domains.get(key)
        if (domain.state in OVER and has_new) or (domain.state is DomainState.SETTLED and domain.reason is None):
            return Job(JobKind.IMPORT, domain.id, domain.name)
    return None


def _find_episode(tx: Transaction, paused: frozenset[str]) -> Job | None:
    """The oldest episode that nobody paused."""
    for key, domain in tx.episodes.list_unfinished():
        if paused.isdisjoint({EVERYTHING, domain}):
            return Job(JobKind.EPISODE, key, domain, tx.episodes.next_number())
    return None
