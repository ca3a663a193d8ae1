"""What to do next, read from the store: which drops to import, which episode to train. Starts nothing."""

from datetime import datetime, time

from adaptd.records import EVERYTHING, Domain, DomainState, Episode, EpisodeState
from adaptd.store import Transaction


def list_paused(tx: Transaction) -> dict[str, str]:
    """What is paused and why, by domain name or * for everything."""
    return {pause.scope: pause.reason for pause in tx.pauses.list_all()}


def find_import(tx: Transaction) -> Domain | None:
    """The domain whose waiting drops come next, in the order in which they came."""
    seen: set[int] = set()
    for drop in tx.drops.list_waiting():
        if drop.domain_id in seen:
            continue
        seen.add(drop.domain_id)
        domain = tx.domains.get(drop.domain_id)
        if domain.state is DomainState.SETTLED and domain.reason is None:
            return domain
    return None


def find_late(tx: Transaction) -> list[Domain]:
    """Domains whose episode is done and that got more drops meanwhile."""
    waiting = {drop.domain_id for drop in tx.drops.list_waiting()}
    return [domain for domain in map(tx.domains.get, sorted(waiting)) if domain.state is DomainState.DONE]


def find_episode(tx: Transaction, paused: dict[str, str]) -> Episode | None:
    """The episode to train next: the oldest that nobody paused."""
    if EVERYTHING in paused:
        return None
    unfinished = (*tx.episodes.list_all(EpisodeState.TRAINING), *tx.episodes.list_all(EpisodeState.QUEUED))
    for episode in sorted(unfinished, key=lambda episode: episode.id):
        if tx.domains.get(episode.domain_id).name not in paused:
            return episode
    return None


def is_open(window: str, now: datetime) -> bool:
    """Whether the time of day lies in a window such as 22:00-06:00; an empty one is always open."""
    if not window:
        return True
    start, end = (time.fromisoformat(part) for part in window.split("-"))
    moment = now.time()
    return start <= moment < end if start <= end else moment >= start or moment < end
