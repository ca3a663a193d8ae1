"""Work that kills its worker: counted, and set aside when it does so again and again, so that the queue goes on."""

from adaptd.daemon.children import Job, Kind
from adaptd.records import DomainState, EpisodeState
from adaptd.store import Transaction

CRASHES = 3
"""Work whose worker dies this often at the same place is set aside."""


def count_crash(tx: Transaction, job: Job, reason: str) -> None:
    """A worker died. What it had finished before stays finished, and what was cancelled stays cancelled."""
    is_import = job.kind is Kind.IMPORT
    episode = None if is_import else tx.episodes.get(job.key)
    if episode is not None and episode.state not in {EpisodeState.QUEUED, EpisodeState.TRAINING}:
        return
    domain_id = job.key if episode is None else episode.domain_id
    crashes = tx.drops.count_crash(domain_id) if is_import else tx.episodes.count_crash(job.key)
    episode_id = None if is_import else job.key
    tx.events.add("worker-died", reason, domain_id=domain_id, episode_id=episode_id, crashes=crashes)
    if crashes < CRASHES:
        return
    why = f"its worker died {crashes} times at the same place, the last time: {reason}; `adaptd retry {job.domain}` tries again"
    if episode_id is not None:
        tx.episodes.set_aside(episode_id, why)
        tx.checkpoints.forget_all(episode_id)
    tx.domains.set_state(domain_id, DomainState.FAILED, why)
    tx.events.add("set-aside", why, domain_id=domain_id, episode_id=episode_id)
