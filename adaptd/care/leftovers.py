"""I7: what killed processes left behind. The daemon removes it when it starts, and `adaptd gc` does."""

from collections.abc import Iterator
from pathlib import Path

from adaptd.care.view import Finding, View
from adaptd.files import hash_file
from adaptd.library.memories import find_memory_episodes
from adaptd.project.layout import Layout
from adaptd.records import MERGED_INTO, NOVELTY, EpisodeState
from adaptd.releases.repositories import find_promises
from adaptd.text import printable

OPEN = (EpisodeState.QUEUED, EpisodeState.TRAINING)


def check_leftovers(view: View, layout: Layout) -> Iterator[Finding]:
    """I7, and claims cut short; only while nobody is at work on the project, for whom these are no leftovers."""
    for path in find_leftovers(view, layout):
        yield Finding("I7", f"{printable(path)} was left by a process that was killed", "start the daemon, or run `adaptd gc`")
    for path in find_useless_checks(view, layout):
        fact = f"{printable(path)}: check models that are damaged, or of no domain"
        yield Finding("I7", fact, "run `adaptd gc`; an episode that needs them makes them anew")
    for path in sorted(layout.drops.glob("*/.claimed-*")):
        fact = f"{printable(path)}: some files that were copied from the inbox may still be there too"
        yield Finding("I1", fact, "start the daemon, which removes them")


def find_leftovers(view: View, layout: Layout) -> tuple[Path, ...]:
    """Unfinished things, and what belongs to episodes that do not need it any more.

    What no episode in the store accounts for stays: a database that was restored from a backup may have forgotten it.
    """
    state = layout.state
    patterns = ("cache/.*", "memory/.*", "weights/.*", "checks/.*", "domains/*/.claiming-*", "backups/*.part")
    found = [path for pattern in patterns for path in state.glob(pattern)]
    return tuple(
        sorted([*found, *_staged(view, layout), *_checkpoints(view, layout), *_of_episodes(view, layout), *_caches(view, layout)])
    )


def find_useless_checks(view: View, layout: Layout) -> tuple[Path, ...]:
    """Check models that are not what was written, or of a domain that is not there."""
    names = {"source", *map(str, view.domains)}
    kept = sorted(layout.checks.glob("[!.]*"))
    return tuple(p for p in kept if p.name.split("-")[0] not in names or hash_file(p) != p.stem.rpartition("-")[2])


def _staged(view: View, layout: Layout) -> Iterator[Path]:
    """Versions in staging that were never committed; a promoted one, or its int8 model, may wait there to be published."""
    promises = find_promises(view.versions)
    promised = {layout.staging / name / str(number) for name, numbers in promises.items() for number in numbers}
    yield from set(layout.staging.glob("*/*")) - promised


def _checkpoints(view: View, layout: Layout) -> Iterator[Path]:
    kept = {layout.state / checkpoint.path for checkpoint in view.checkpoints}
    for episode in view.episodes:
        folder = layout.checkpoints(episode.id)
        inside = set(folder.glob("*"))
        if folder.is_dir() and not inside & kept:
            yield folder
        else:
            yield from inside - kept


def _of_episodes(view: View, layout: Layout) -> Iterator[Path]:
    remembered = find_memory_episodes(view.episodes)
    for episode in view.episodes:
        if episode.state in OPEN:
            continue
        memory, weights = layout.memory(episode.domain_id, episode.id), layout.weights(episode.id)
        if layout.activations(episode.id).is_dir():
            yield layout.activations(episode.id)
        if remembered.get(episode.domain_id) != episode.id and memory.is_dir():
            yield memory
        if episode.state is not EpisodeState.DONE and weights.exists():
            yield weights


def _caches(view: View, layout: Layout) -> Iterator[Path]:
    """Decoded images of a delivery that is forgotten, joined another domain, or was never committed with its episode."""
    kept = (episode for episode in view.episodes if MERGED_INTO not in episode.report.get(NOVELTY, {}))
    committed = {(episode.domain_id, episode.delivery) for episode in kept}
    for folder in layout.caches.glob("[0-9]*-[0-9]*-*"):
        names = folder.name.split("-")[:2]
        if not all(map(str.isdecimal, names)) or int(names[0]) not in view.domains:
            continue
        domain_id, delivery = map(int, names)
        if (domain_id, delivery) not in committed or delivery not in view.kept.get(domain_id, {delivery}):
            yield folder
