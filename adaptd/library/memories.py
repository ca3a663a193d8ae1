"""Which episode's memory counts: not every one that is done kept one. Pixels and rows are elsewhere; no torch here."""

from collections.abc import Iterable

from adaptd.records import Episode, EpisodeState

MEMORY_IMAGES = "memory_images"
"""Under this name an episode's report tells how large a memory it kept."""


def find_memory_episodes(episodes: Iterable[Episode]) -> dict[int, int]:
    """By domain id, the newest finished episode that kept a memory: one whose version was rejected did not."""
    done = (episode for episode in episodes if episode.state is EpisodeState.DONE)
    return {e.domain_id: e.id for e in sorted(done, key=lambda e: e.number or 0) if e.report.get(MEMORY_IMAGES) != 0}
