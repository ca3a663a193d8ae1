"""The chain of promotions up to what is served, and what was best along it. Reads rows only; no torch here."""

from collections.abc import Sequence

from adaptd.library.memories import find_memory_episodes
from adaptd.records import SUPERVISED, Accuracy, AccuracyKind, Episode, Version, VersionState

PUBLISHED = (VersionState.PROMOTED, VersionState.RETIRED)


def origin_of(version: Version) -> int:
    """The version whose weights these are; under its number they were measured."""
    return version.restores or version.version


def find_chain(versions: Sequence[Version]) -> tuple[Version, ...]:
    """The promoted versions up to the served one, which is the last; going back took the later ones off."""
    chain: list[Version] = []
    for version in versions:
        if version.state not in PUBLISHED:
            continue
        origins = [origin_of(before) for before in chain]
        if origin_of(version) in origins:
            del chain[origins.index(origin_of(version)) + 1 :]
        else:
            chain.append(version)
    return tuple(chain)


def find_learned(versions: Sequence[Version], episodes: Sequence[Episode], domain_id: int) -> tuple[int, ...]:
    """The versions whose weights an episode on a domain is behind."""
    learning, learned = {episode.id: episode for episode in episodes}, set[int]()
    for version in versions:  # each comes after what it began with
        episode = learning[version.episode_id]
        base = version.parent if episode.base is None and episode.method != SUPERVISED else episode.base
        if episode.domain_id == domain_id or (version.restores or base) in learned:
            learned.add(version.version)
    return tuple(sorted(learned))


def find_undone(versions: Sequence[Version], episodes: Sequence[Episode]) -> tuple[int, ...]:
    """The ids of domains whose memory an episode left that the served version did not come of: somebody went back behind it."""
    kept = {version.episode_id for version in find_chain(versions)}
    return tuple(sorted(key for key, episode in find_memory_episodes(episodes).items() if episode not in kept))


def find_best(chain: Sequence[Version], accuracies: Sequence[Accuracy]) -> dict[int, Accuracy]:
    """By domain id, the best measured accuracy before the served version.

    Whoever forced a version accepted what it lost: what was better before it does not count any more.
    """
    forced = [place for place, version in enumerate(chain) if version.forced_because]
    counting = {origin_of(version) for version in chain[forced[-1] if forced else 0 : -1]}
    best: dict[int, Accuracy] = {}
    for accuracy in accuracies:
        if accuracy.version not in counting or accuracy.kind is not AccuracyKind.MEASURED:
            continue
        if accuracy.domain_id not in best or accuracy.value > best[accuracy.domain_id].value:
            best[accuracy.domain_id] = accuracy
    return best
