"""Work that kills its worker, and drops that cannot be moved: counted, and failed at last, so that the queue goes on."""

from shlex import quote

from adaptd.daemon.jobs import Job, JobEnd, JobKind, JobOutcome
from adaptd.records import DomainState, EpisodeState, EventKind
from adaptd.store import Transaction

CRASHES = 3
"""Work whose worker dies this often at the same place has failed."""


def record_end(tx: Transaction, job: Job, end: JobEnd) -> None:
    """A worker is gone. What it had finished before stays finished, and what was cancelled stays cancelled."""
    if job.kind is JobKind.EPISODE and tx.episodes.get(job.key).state not in {EpisodeState.QUEUED, EpisodeState.TRAINING}:
        tx.checkpoints.forget_all(job.key)  # one may have been written since the episode was given up
    elif end.outcome is JobOutcome.CRASHED:
        _count_crash(tx, job, end.reason)


def record_delay(tx: Transaction, domain_id: int, why: str) -> None:
    """A drop of a domain cannot be taken in full."""
    tx.events.add(EventKind.DROP_STUCK, why, domain_id=domain_id, crashes=(delays := tx.drops.count_crash(domain_id)))
    if delays >= CRASHES:
        domain = tx.domains.get(domain_id)
        why = f"{why}; `adaptd retry {quote(domain.name)}` goes on with what is here"
        tx.domains.set_state(domain_id, DomainState.FAILED, why)
        tx.events.add(EventKind.GIVEN_UP, why, domain_id=domain_id)


def _count_crash(tx: Transaction, job: Job, reason: str) -> None:
    is_import = job.kind is JobKind.IMPORT
    domain_id = job.key if is_import else tx.episodes.get(job.key).domain_id
    crashes = tx.drops.count_crash(domain_id) if is_import else tx.episodes.count_crash(job.key)
    episode_id = None if is_import else job.key
    tx.events.add(EventKind.WORKER_DIED, reason, domain_id=domain_id, episode_id=episode_id, crashes=crashes)
    if crashes < CRASHES:
        return
    again = f"`adaptd retry {quote(job.domain)}` tries again"
    why = f"its worker died {crashes} times at the same place, the last time: {reason}; {again}"
    if episode_id is not None:
        tx.episodes.give_up(episode_id, why)
        tx.checkpoints.forget_all(episode_id)
    tx.domains.set_state(domain_id, DomainState.FAILED, why)
    tx.events.add(EventKind.GIVEN_UP, why, domain_id=domain_id, episode_id=episode_id)
