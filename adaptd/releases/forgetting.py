"""Forgetting a domain: its memory, its given labels and its place in later episodes go. Deletes no original; no torch here.

One transaction says so, then pixels go; those that a kill leaves the next start removes. R keeps the domain's column: its rows
are what committed episodes came to, and the cards of published versions tell the same. Versions that learned from it stay.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from adaptd.errors import EpisodeError
from adaptd.files import try_to_remove
from adaptd.library.memories import MEMORY_IMAGES, find_forgotten
from adaptd.project.layout import Layout
from adaptd.project.lock import find_holder, publishing_alone
from adaptd.records import Domain, DomainState, EpisodeState, EventKind, Split, VersionState
from adaptd.releases.lineage import PUBLISHED, find_learned
from adaptd.store import Store, Transaction
from adaptd.text import tell_count

AT_WORK = (DomainState.ARRIVING, DomainState.SETTLED, DomainState.QUEUED, DomainState.TRAINING)
NOTHING = 0
"""The delivery of a drop that nothing came of."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What goes if a domain is forgotten, and what does not.

    `learned` are the versions that learned from it, `served` the promoted one if it is among them, `before` the newest version to
    go back to that is not. `row` is the newest of R, None where the domain has no column.
    """

    name: str
    images: int
    memory: int
    labels: int
    quarantined: int
    learned: tuple[int, ...]
    served: int | None
    before: int | None
    row: int | None
    is_forgotten: bool

    def tell(self) -> Iterator[str]:
        """In sentences."""
        images, labels = tell_count(self.images, "image"), tell_count(self.labels, "label")
        yield f"{self.name}: {images}, {self.memory:,} of them in memory, {labels} that people gave"
        if self.learned:
            yield f"versions that learned from it stay as they are: {', '.join(map(str, self.learned))}{self._tell_served()}"
        if self.row is not None:
            yield (
                f"R keeps its column as history, up to row {self.row}: later rows leave it empty, the gate does not ask for it, "
                "and ACC, BWT, FWT and forgetting do not count it"
            )
        if self.quarantined:
            purge = f"adaptd quarantine purge --domain {quote(self.name)}"
            yield f"{self.quarantined:,} files in quarantine stay: `{purge}` deletes them"

    def _tell_served(self) -> str:
        if self.served is None:
            return ""
        back = "" if self.before is None else f"; `adaptd rollback {self.before}` goes back behind them"
        return f". Version {self.served} is served{back}"


def look_ahead(tx: Transaction, state: Path, name: str) -> Prospect:
    """What forgetting a domain would mean.

    Raises:
        EpisodeError: it cannot be forgotten now, or never.
    """
    domain = _get_forgettable(tx, state, name)
    versions, episodes = tx.versions.list_all(), tx.episodes.list_all()
    learned = find_learned(versions, episodes, domain.id)
    promoted = tx.versions.find_latest(VersionState.PROMOTED)
    untouched = [v.version for v in versions if v.state in PUBLISHED and v.version not in learned and v.restores is None]
    return Prospect(
        name,
        domain.images,
        tx.memories.counts().get(domain.id, 0),
        len(tx.labels.list_for(domain.id)),
        domain.quarantined,
        learned,
        promoted.version if promoted is not None and promoted.version in learned else None,
        max(untouched, default=None),
        None if domain.position is None else tx.episodes.next_number() - 1,
        # Tried again since then, and refused or failed, it has images and is told of: that can be forgotten once more.
        domain.state is DomainState.SKIPPED and not domain.images and domain.id in find_forgotten([domain], episodes),
    )


def forget_domain(store: Store, state: Path, name: str) -> str:
    """Forget it; what is said of that.

    Raises:
        EpisodeError: it cannot be forgotten now, or never.
    """
    with publishing_alone(state):
        with store.writing() as tx:
            domain = _get_forgettable(tx, state, name)
            message = forget_rows(tx, domain)
            unwanted = list(_list_unwanted(tx, Layout(state), domain.id))
        for path in unwanted:
            try_to_remove(path)
    return message


def sweep_forgotten(store: Store, layout: Layout, only: Collection[int] | None = None) -> None:
    """Remove pixels that a killed process did not get to; only while the project is ours alone and nobody imports.

    Of those with the ids `only`, who were forgotten a moment ago, nobody imports anything yet.
    """
    with store.reading() as tx:
        forgotten = [d.id for d in tx.domains.list_all() if d.forgotten and (only is None or d.id in only)]
        unwanted = [path for key in forgotten for path in _list_unwanted(tx, layout, key)]
    for path in unwanted:
        try_to_remove(path)


def _get_forgettable(tx: Transaction, state: Path, name: str) -> Domain:
    domain = tx.domains.get_named(name)
    if domain.position == 0:
        raise EpisodeError(
            f"{name} cannot be forgotten, every episode learns from it: `adaptd source import DIR --again` replaces it"
        )
    is_next = domain.state in {DomainState.DONE, DomainState.REJECTED} and tx.drops.list_waiting(domain.id)
    if domain.state in AT_WORK or is_next or tx.episodes.find_unfinished(domain.id) is not None:
        doing = "has drops that wait" if is_next else f"is {domain.state}"
        raise EpisodeError(f"{name} {doing}: `adaptd cancel {quote(name)}` gives that up, then it can be forgotten")
    running = [episode for episode in tx.episodes.list_all(EpisodeState.TRAINING) if episode.lease is not None]
    if running and find_holder(state) is not None:
        other = tx.domains.get(running[0].domain_id).name
        raise EpisodeError(
            f"an episode on {other} is at work, with what is remembered of {name}: wait for its end, or `adaptd pause`, "
            f"forget {name}, and `adaptd resume`; the episode then begins anew"
        )
    return domain


def forget_rows(tx: Transaction, domain: Domain, why: str = "forgotten by `adaptd forget`", *, can_return: bool = True) -> str:
    """All rows at once."""
    mine = [episode for episode in tx.episodes.list_all() if episode.domain_id == domain.id]
    tx.memories.replace(domain.id, [])
    for episode in (each for each in mine if each.state is EpisodeState.DONE):
        tx.episodes.amend(episode.id, **{MEMORY_IMAGES: 0})
    tx.images.remove_all(domain.id)
    failed = tx.episodes.last_delivery(domain.id) + 1  # its drops would come along with the next one
    tx.drops.take_in([drop.id for drop in tx.drops.list_all(domain.id) if drop.delivery == failed], NOTHING)
    # An interrupted episode on another domain has learned with this one's memory.
    tx.checkpoints.forget_all()
    tx.domains.forget(domain.id, max((episode.id for episode in mine), default=0))
    kept = any(drop.files for drop in tx.drops.list_all(domain.id))
    again = f"`adaptd retry {quote(domain.name)}` learns from its originals again" if kept else "drop its images to learn again"
    tx.domains.set_state(domain.id, DomainState.SKIPPED, f"{why}; {again}" if can_return else why)
    tx.events.add(EventKind.FORGOTTEN, f"{domain.name} was forgotten: its memory, labels and images", domain_id=domain.id)
    return f"{domain.name} is forgotten: {again}"


def _list_unwanted(tx: Transaction, layout: Layout, domain_id: int) -> Iterator[Path]:
    """Decoded images, memories, check models and pages of what was forgotten of a domain, as far as rows tell of them."""
    domain, parts = tx.domains.get(domain_id), tx.images.list_parts(domain_id)
    mine = [episode for episode in tx.episodes.list_all() if episode.domain_id == domain_id]
    gone = [episode for episode in mine if episode.id <= (domain.forgotten or 0)]
    kept = {delivery for delivery, _ in parts}
    for delivery in {episode.delivery for episode in gone} - kept:
        yield from (layout.cache(domain_id, delivery, split) for split in Split)
    for episode in gone:
        yield layout.memory(domain_id, episode.id)
        yield layout.insight(episode.id)
    if domain_id in find_forgotten([domain], mine):
        yield from layout.checks.glob(f"{domain_id}-*")
