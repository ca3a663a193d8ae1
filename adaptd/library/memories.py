"""Which episodes count for what is remembered: not every one that is done kept a memory, and some are forgotten.

Pixels and rows are elsewhere; no torch here.
"""

from collections.abc import Iterable

from adaptd.records import Domain, Episode, EpisodeState

MEMORY_IMAGES = "memory_images"
"""Under this name an episode's report tells how large a memory it kept."""


def find_memory_episodes(episodes: Iterable[Episode]) -> dict[int, int]:
    """By domain id, the newest finished episode that kept a memory: one whose version was rejected did not."""
    done = (episode for episode in episodes if episode.state is EpisodeState.DONE)
    return {e.domain_id: e.id for e in sorted(done, key=lambda e: e.number or 0) if e.report.get(MEMORY_IMAGES) != 0}


def find_forgotten(domains: Iterable[Domain], episodes: Iterable[Episode]) -> frozenset[int]:
    """The ids of domains that were forgotten, and not learned from since."""
    newest = {e.domain_id: e.id for e in sorted(episodes, key=lambda e: e.id) if e.state is EpisodeState.DONE}
    return frozenset(d.id for d in domains if d.forgotten is not None and newest.get(d.id, 0) <= d.forgotten)
