"""What the store says at one moment, and the files of a folder: what all checks start from. Judges nothing."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from adaptd.intake.names import is_passed_over
from adaptd.project.layout import Layout
from adaptd.records import (
    Accuracy,
    Checkpoint,
    Domain,
    DropRecord,
    Episode,
    EpisodeState,
    Image,
    Quarantined,
    Version,
)
from adaptd.store import Transaction
from adaptd.text import printable

ShowProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold: which invariant, the fact, and what to do about it."""

    invariant: str
    what: str
    repair: str


@dataclass(frozen=True, slots=True)
class View:
    """Every record but events, in one consistent view; `images` and `memory` by domain id.

    `kept` are the deliveries with images of domains that were forgotten, by domain id: others left nothing that counts.
    """

    domains: dict[int, Domain]
    drops: tuple[DropRecord, ...]
    quarantine: tuple[Quarantined, ...]
    images: dict[int, tuple[Image, ...]]
    episodes: tuple[Episode, ...]
    checkpoints: tuple[Checkpoint, ...]
    memory: dict[int, tuple[int, ...]]
    versions: tuple[Version, ...]
    accuracies: tuple[Accuracy, ...]
    kept: dict[int, frozenset[int]]

    @classmethod
    def read(cls, tx: Transaction, *, with_images: bool = True) -> "View":
        """All of it, or all but the images, of which there may be many."""
        domains = {domain.id: domain for domain in tx.domains.list_all()}
        episodes = tx.episodes.list_all()
        return cls(
            domains,
            tx.drops.list_all(),
            tx.quarantine.list_all(),
            {key: tx.images.list_for(key) if with_images else () for key in domains},
            episodes,
            tuple(checkpoint for episode in episodes for checkpoint in tx.checkpoints.list_for(episode.id)),
            {key: tuple(item.image_id for item in tx.memories.list_for(key)) for key in tx.memories.counts()},
            tx.versions.list_all(),
            tx.accuracies.list_all(),
            list_kept(tx),
        )

    @property
    def done(self) -> list[Episode]:
        """Committed episodes, by number."""
        return sorted((e for e in self.episodes if e.state is EpisodeState.DONE), key=lambda e: e.number or 0)

    def quarantine_by_drop(self) -> dict[int, list[Quarantined]]:
        """What was quarantined of each drop."""
        found: dict[int, list[Quarantined]] = defaultdict(list)
        for item in self.quarantine:
            if item.drop_id is not None:
                found[item.drop_id].append(item)
        return found


def list_kept(tx: Transaction) -> dict[int, frozenset[int]]:
    """Of domains that were forgotten, by id, the deliveries that have images: those that came since."""
    forgotten = (domain.id for domain in tx.domains.list_all() if domain.forgotten is not None)
    return {key: frozenset(delivery for delivery, _ in tx.images.list_parts(key)) for key in forgotten}


def is_forgotten(drop: DropRecord, kept: Mapping[int, frozenset[int]]) -> bool:
    """Whether a drop's files are only kept: no row tells any more what an import saw in them."""
    return drop.delivery is not None and drop.delivery not in kept.get(drop.domain_id, {drop.delivery})


def quarantine_places(layout: Layout, domain: Domain, drop: DropRecord, item: Quarantined) -> tuple[Path, Path]:
    """Where a file of a drop lies once it is quarantined: under its own name, or its row's id where that cannot be."""
    folder = layout.quarantine(domain.name, drop.number)
    return folder / item.name, folder / str(item.id)


def list_files(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What of a drop counts as its files, by the names that the store has for them."""
    folders = [(os.fspath(folder), "")]
    while folders:
        place, prefix = folders.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if is_passed_over(entry.name):
                    continue
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, f"{name}/"))
                else:
                    yield name if name.isascii() else printable(Path(name)), entry


def is_counted(name: str) -> bool:
    """Whether `list_files` would list a file of this name."""
    return not any(is_passed_over(part) for part in name.split("/"))
