"""`adaptd gc`: what may be deleted, why, and deleting it. Memories, caches of domains and quarantine are never offered."""

import errno
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from adaptd.beneath import REPLACED, holding, opened, remove_at, walk
from adaptd.care.leftovers import OPEN, find_leftovers, find_useless_checks
from adaptd.care.view import View
from adaptd.files import passing, remove
from adaptd.imports.claimed import ListImages, is_as_claimed, read_claimed
from adaptd.intake.names import READY_MARK, is_clutter
from adaptd.intake.tree import Stamp, read_files, read_stamp
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import DomainState, DropRecord, Episode, EpisodeState, EventKind, Split, VersionState
from adaptd.store import Store
from adaptd.text import printable

BACKUPS_KEPT = 5
NOTHING = 0
"""The delivery of a drop that nothing came of."""


class Kind(StrEnum):
    """What may be deleted. The last three only when asked for."""

    LEFTOVER = "leftover"
    BACKUP = "backup"
    ORIGINALS = "originals"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Deletable:
    """Something that may be deleted: what it is, where, how large, why; and the drops that lose their files with it.

    Of `files`, which are folders of drops, nothing goes but what was looked at: somebody may still write there.
    """

    kind: Kind
    paths: tuple[Path, ...]
    size_bytes: int
    reason: str
    drops: tuple[DropRecord, ...] = ()
    files: Mapping[Path, Mapping[str, Stamp]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Wish:
    """What to look for beside leftovers and old backups. `budget_bytes` 0: no budget."""

    originals: bool = False
    rejected: bool = False
    failed: bool = False
    budget_bytes: int = 0


def plan(view: View, project: Project, wish: Wish) -> tuple[Deletable, ...]:
    """What may be deleted, and why."""
    layout = Layout(project.state)
    found = [*_leftovers(view, layout), *_backups(layout)]
    if wish.rejected:
        found += _rejected(view, layout)
    if wish.failed:
        found += _failed(view, layout)
    if not wish.originals and not wish.budget_bytes:
        return tuple(found)
    originals = list(_originals(view, layout))
    if wish.originals:
        return (*found, *originals)
    if wish.budget_bytes:
        over = size(layout.state) - sum(deletable.size_bytes for deletable in found) - wish.budget_bytes
        for deletable in originals:
            if over <= 0:
                break
            found.append(deletable)
            over -= deletable.size_bytes
    return tuple(found)


def plan_originals(view: View, layout: Layout, domain_id: int) -> tuple[Deletable, ...]:
    """The original files of one domain, as far as an import has seen them as they are."""
    found = (*_failed(view, layout), *_originals(view, layout))
    return tuple(deletable for deletable in found if deletable.drops[0].domain_id == domain_id)


def delete(store: Store, deletables: Iterable[Deletable]) -> tuple[str, ...]:
    """Delete; only while the project is ours alone. The rows go first: killed in between, the next run goes on.

    What cannot be deleted, and why: another user's files, say. The rest goes all the same.
    """
    left = []
    for deletable in deletables:
        with store.writing() as tx:
            for drop in deletable.drops:
                if deletable.kind is Kind.ORIGINALS:
                    assert drop.delivery is not None
                    tx.drops.forget_originals(drop.id, drop.delivery)
                    tx.images.forget_originals(drop.domain_id, drop.delivery)
                else:
                    tx.drops.forget_originals(drop.id, NOTHING)
            if deletable.kind is Kind.FAILED:
                domain = tx.domains.get(deletable.drops[0].domain_id)
                for delivery in {drop.delivery for drop in deletable.drops if drop.delivery}:
                    tx.images.remove_delivery(domain.id, delivery)
                is_over = domain.position is not None and domain.forgotten is None
                state = DomainState.DONE if is_over else DomainState.SKIPPED
                tx.domains.set_state(domain.id, state, "its images were deleted by `adaptd gc --failed`")
            for domain_id in {drop.domain_id for drop in deletable.drops}:
                tx.events.add(EventKind.FILES_DELETED, f"{deletable.kind}: {deletable.reason}", domain_id=domain_id)
        for path in deletable.paths:
            try:
                _remove_seen(path, deletable.files[path]) if path in deletable.files else remove(path)
            except OSError as problem:
                left.append(f"{printable(path)} cannot be deleted: {problem.strerror}; give adaptd the permission, or delete it")
    return tuple(left)


def size(path: Path) -> int:
    """Bytes that a file or folder takes on disk; links are not followed."""
    try:
        status = os.lstat(path)
        total = status.st_blocks * 512
        if path.is_dir() and not path.is_symlink():
            with os.scandir(path) as entries:
                total += sum(size(Path(entry)) for entry in entries)
    except FileNotFoundError:  # it went away meanwhile
        return 0
    return total


def _remove_seen(folder: Path, files: Mapping[str, Stamp]) -> None:
    """Delete a drop's files as they were seen, its clutter, and the folders that are empty then; no link leads out of it."""
    with opened(folder) as top:
        for inside, stamp in files.items():
            with passing(*REPLACED), holding(top, inside) as (place, name):
                if read_stamp(name, place) == stamp:
                    os.unlink(name, dir_fd=place)
        folders = _remove_clutter(top)
        for inside in sorted(folders, key=lambda path: path.count("/"), reverse=True):
            with passing(*REPLACED, errno.ENOTEMPTY, errno.EEXIST), holding(top, inside) as (place, name):
                os.rmdir(name, dir_fd=place)
    with passing(errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
        folder.rmdir()


def _remove_clutter(top: int) -> list[str]:
    """Delete what is of no use; the folders that are left."""
    found = [(inside, entry.is_dir(follow_symlinks=False)) for inside, entry in walk(top) if entry is not None]
    useless = {inside for inside, _ in found if is_clutter(name := inside.rpartition("/")[2]) or name == READY_MARK}
    for inside in useless:
        with passing(*REPLACED), holding(top, inside) as (place, name):
            remove_at(place, name)
    return [inside for inside, is_dir in found if is_dir and inside not in useless]


def _deletable(
    kind: Kind,
    paths: Sequence[Path],
    reason: str,
    drops: Sequence[DropRecord] = (),
    files: Mapping[Path, Mapping[str, Stamp]] | None = None,
) -> Deletable:
    return Deletable(kind, tuple(paths), sum(map(size, paths)), reason, tuple(drops), files or {})


def _read_seen(view: View, layout: Layout, drops: Sequence[DropRecord]) -> dict[Path, Mapping[str, Stamp]] | None:
    """The files of drops by folder; None where there is one that no import has seen, or not as it is: that may not go."""
    aside, found = view.quarantine_by_drop(), dict[Path, Mapping[str, Stamp]]()
    for drop in drops:
        folder, pending = layout.state / drop.path, {item.name for item in aside[drop.id] if item.path is None}
        try:
            seen = _read_seen_of(folder, drop, partial(view.images.__getitem__, drop.domain_id), pending)
        except OSError:  # fsck tells of it
            return None
        if seen is None:
            return None
        found[folder] = seen
    return found


def _read_seen_of(folder: Path, drop: DropRecord, list_images: ListImages, pending: set[str]) -> Mapping[str, Stamp] | None:
    if drop.delivery is None:
        return read_files(folder) if is_as_claimed(folder, drop, pending) else None
    claimed = read_claimed(folder, drop, list_images, pending, every=True)
    return None if claimed.late or claimed.damaged else claimed.files


def _leftovers(view: View, layout: Layout) -> Iterator[Deletable]:
    for path in find_leftovers(view, layout):
        yield _deletable(Kind.LEFTOVER, [path], "left by a process that was killed")
    for path in find_useless_checks(view, layout):
        yield _deletable(Kind.LEFTOVER, [path], "check models that are damaged, or of no domain")


def _backups(layout: Layout) -> Iterator[Deletable]:
    copies = sorted((layout.state / "backups").glob("adaptd-*.db"), key=lambda path: path.name.rpartition("-")[2])
    for path in copies[:-BACKUPS_KEPT]:
        yield _deletable(Kind.BACKUP, [path], f"{BACKUPS_KEPT} newer copies of the database are kept")


def _originals(view: View, layout: Layout) -> Iterator[Deletable]:
    """By delivery, oldest first: of episodes that are done, and drops that brought nothing new."""
    done = {(episode.domain_id, episode.delivery) for episode in view.done}
    deliveries: dict[tuple[int, int], list[DropRecord]] = defaultdict(list)
    for drop in view.drops:
        if (
            drop.delivery is not None
            and _is_ours(layout, drop)
            and (drop.delivery == NOTHING or (drop.domain_id, drop.delivery) in done)
        ):
            deliveries[drop.domain_id, drop.delivery].append(drop)
    for (domain_id, delivery), drops in sorted(deliveries.items(), key=lambda item: item[1][0].claimed_at):
        name = view.domains[domain_id].name
        why = (
            f"{name}, delivery {delivery}: only needed to decode again at another size"
            if delivery
            else f"{name}: brought nothing new"
        )
        files = _read_seen(view, layout, drops)
        if files is not None:
            yield _deletable(Kind.ORIGINALS, list(files), why, drops, files)


def _failed(view: View, layout: Layout) -> Iterator[Deletable]:
    """By domain: waiting drops, and deliveries whose every episode failed or was cancelled."""
    by_delivery: dict[tuple[int, int], list[Episode]] = defaultdict(list)
    for episode in view.episodes:
        by_delivery[episode.domain_id, episode.delivery].append(episode)
    lost = {
        key for key, tried in by_delivery.items() if all(e.state in {EpisodeState.FAILED, EpisodeState.CANCELLED} for e in tried)
    }
    given_up = {DomainState.FAILED, DomainState.REFUSED, DomainState.SKIPPED}
    busy = {episode.domain_id for episode in view.episodes if episode.state in OPEN}
    for domain in view.domains.values():
        if domain.state not in given_up or domain.id in busy:
            continue
        mine = (drop for drop in view.drops if drop.domain_id == domain.id and _is_ours(layout, drop))
        drops = [drop for drop in mine if drop.delivery is None or (domain.id, drop.delivery) in lost]
        files = _read_seen(view, layout, drops)
        if drops and files is not None:
            deliveries = {drop.delivery for drop in drops if drop.delivery}
            caches = [layout.cache(domain.id, delivery, split) for delivery in sorted(deliveries) for split in Split]
            paths = [*files, *(path for path in caches if path.is_dir())]
            yield _deletable(Kind.FAILED, paths, f"{domain.name} is {domain.state}: nothing was learned from it", drops, files)


def _rejected(view: View, layout: Layout) -> Iterator[Deletable]:
    """Weights of rejected versions before the newest promoted one that nothing else is made of."""
    promoted = max((v.version for v in view.versions if v.state is VersionState.PROMOTED), default=0)
    gone = [v for v in view.versions if v.state is VersionState.REJECTED and v.version < promoted]
    needed = {v.weights_path for v in view.versions if v not in gone}
    parents = {number for v in view.versions for number in (v.parent, v.restores)}
    for version in gone:
        path = layout.state / version.weights_path
        if version.weights_path not in needed and version.version not in parents and path.exists():
            why = f"version {version.version} was rejected; it can then neither be promoted nor measured with labels to come"
            yield _deletable(Kind.REJECTED, [path], why)


def _is_ours(layout: Layout, drop: DropRecord) -> bool:
    """Whether its files lie in the state folder."""
    return not Path(drop.path).is_absolute() and (layout.state / drop.path).is_dir()
