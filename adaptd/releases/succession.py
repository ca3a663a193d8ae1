"""A new source takes the old one's place, and a lineage of versions begins: what that means, and all of its rows at once.

Until the episode on it is committed, the new source is a domain of its own, which no folder in the inbox can name, and everything
else is as before. Then, in the same transaction, it is the source; the old one and every domain are forgotten, since what is
remembered of them was labelled by models of the older lineage. Versions and originals stay. No torch here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from adaptd.errors import EpisodeError
from adaptd.library.memories import find_forgotten
from adaptd.records import NEW_SOURCE, SOURCE, SUPERVISED, Domain, Episode, EpisodeState, EventKind, Version, VersionState
from adaptd.releases.forgetting import forget_rows
from adaptd.store import Transaction
from adaptd.text import tell_count

FIRST = "It begins a new lineage, from a new source: it is compared with no older version."
"""What the gate says of its first version."""


@dataclass(frozen=True, slots=True)
class Succession:
    """What a new source means for a project."""

    served: int
    row: int
    domains: tuple[str, ...]
    memory: int
    labels: int

    def tell(self) -> Iterator[str]:
        """In sentences."""
        yield (
            "the model is trained anew, on the new source alone, and its version is promoted when it is done; until then "
            f"version {self.served} is served, and `adaptd rollback` goes back to it"
        )
        yield f"R begins anew with row {self.row}; older versions stay, with the accuracies on their cards"
        if self.domains:
            images, labels = tell_count(self.memory, "image"), tell_count(self.labels, "label")
            yield (
                f"{tell_count(len(self.domains), 'domain')} will be forgotten ({', '.join(self.domains)}): {images} in memory "
                f"and {labels} that people gave go; originals stay, and `adaptd retry DOMAIN` learns each again"
            )


def look_ahead(tx: Transaction) -> Succession | None:
    """What it would mean; None where there is no source yet that could be replaced.

    Raises:
        EpisodeError: not now.
    """
    served = tx.versions.find_latest(VersionState.PROMOTED)
    if served is None:
        return None
    waiting = [name for _, name in tx.episodes.list_unfinished() if name != NEW_SOURCE]
    if waiting:
        raise EpisodeError(f"an episode on {waiting[0]} is not over: `adaptd run --drain` ends it, `adaptd cancel` gives it up")
    going = _list_going(tx)
    memories, labels = tx.memories.counts(), tx.labels.counts()
    return Succession(
        served.version,
        tx.episodes.next_number(),
        tuple(domain.name for domain in going),
        sum(memories.get(domain.id, 0) for domain in going),
        sum(count for (key, _), count in labels.items() if key in {domain.id for domain in going}),
    )


def succeed(tx: Transaction, new: Domain, version: int) -> tuple[int, ...]:
    """Rows of the new source's commit: it is the source from now on. The ids of domains whose pixels may go."""
    old = tx.domains.get_named(SOURCE)
    going = _list_going(tx)
    for domain in going:
        forget_rows(tx, domain, f"forgotten for a new source, version {version}")
    forget_rows(tx, old, f"replaced by a new source with version {version}", can_return=False)
    tx.domains.replace_source(old.id, new.id, f"{NEW_SOURCE}-before-{version}")
    tx.events.add(EventKind.SOURCE_REPLACED, f"a new source begins a lineage with version {version}", domain_id=new.id)
    return (old.id, *(domain.id for domain in going))


def find_source_version(versions: tuple[Version, ...], episodes: tuple[Episode, ...]) -> Version | None:
    """The first version of the lineage that is going on: what its source alone taught."""
    supervised = {e.id for e in episodes if e.method == SUPERVISED and e.state is EpisodeState.DONE}
    own = [version for version in versions if version.restores is None]
    return next((version for version in reversed(own) if version.episode_id in supervised), own[0] if own else None)


def _list_going(tx: Transaction) -> list[Domain]:
    """Domains that are remembered, the source aside."""
    placed = [domain for domain in tx.domains.list_all() if domain.position]
    forgotten = find_forgotten(placed, tx.episodes.list_all())
    return [domain for domain in placed if domain.id not in forgotten]
