"""Removing what killed processes, failed episodes and replaced memories left in the state folder."""

from pathlib import Path

from adaptd.files import try_to_remove
from adaptd.library.cache import remove_unfinished
from adaptd.library.memories import find_memory_episodes
from adaptd.project.layout import Layout
from adaptd.records import Episode, EpisodeState
from adaptd.releases.forgetting import sweep_forgotten
from adaptd.store import Store


def sweep(store: Store, layout: Layout) -> None:
    """Remove leftovers; only while the project is ours alone and nobody imports."""
    remove_unfinished(layout.caches)
    sweep_forgotten(store, layout)
    sweep_episodes(store, layout)


def sweep_episodes(store: Store, layout: Layout) -> None:
    """Remove leftovers of episodes; only while no episode is at work.

    Beside unfinished files only those go that belong to an episode in the store: what it does not know, it may have forgotten,
    as a database that was restored from a backup has.
    """
    with store.reading() as tx:
        episodes = tx.episodes.list_all()
        kept = {layout.state / checkpoint.path for e in episodes for checkpoint in tx.checkpoints.list_for(e.id)}
    remove_unfinished(layout.memories)
    remembered = find_memory_episodes(episodes)
    for episode in episodes:
        _sweep_checkpoints(layout.checkpoints(episode.id), kept)
        if episode.state not in {EpisodeState.QUEUED, EpisodeState.TRAINING}:
            _clear(layout, episode, keeps_memory=remembered.get(episode.domain_id) == episode.id)


def _sweep_checkpoints(folder: Path, kept: set[Path]) -> None:
    """Remove checkpoints without a row, and their folder where none is left."""
    found = set(folder.glob("*"))
    for path in found - kept:
        try_to_remove(path)
    if folder.is_dir() and not any(folder.iterdir()):
        try_to_remove(folder)


def _clear(layout: Layout, episode: Episode, *, keeps_memory: bool) -> None:
    """Remove what an episode that is over does not need any more; a failed one leaves nothing at all."""
    unwanted = [layout.unfinished_weights(episode.id), layout.activations(episode.id)]
    if not keeps_memory:
        unwanted.append(layout.memory(episode.domain_id, episode.id))
    if episode.state is not EpisodeState.DONE:
        unwanted += [layout.weights(episode.id), layout.insight(episode.id)]
    for path in unwanted:
        try_to_remove(path)
