"""I1 and I2: every image is in exactly one place, and none is twice in a domain. Opens no image and no cache."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from adaptd.beneath import REPLACED
from adaptd.care.view import Finding, View, is_counted, is_forgotten, list_files, quarantine_places
from adaptd.imports.claimed import Claimed, has_changed, read_claimed, spell
from adaptd.project.layout import Layout
from adaptd.records import DropRecord, Image, ImageState, Quarantined
from adaptd.text import printable

NAMED = 3
"""Files that a finding names; of the rest it says how many there are."""

RESTORE = "restore it from a backup"
TAKE_IN = "start the daemon, which takes it for a drop of its own"


def check_drops(view: View, layout: Layout, inbox: Path) -> Iterator[Finding]:
    """I1: each drop lies where its row says, with all its files; and its accepted images are among them.

    The row comes before the claim: a drop that was not imported may still be in the inbox.
    """
    aside = view.quarantine_by_drop()
    unreadable = dict[int, str]()
    late = find_late_files(view, layout, unreadable)
    for (domain_id, delivery), drops in _by_delivery(view.drops).items():
        name, sizes, whole = view.domains[domain_id].name, dict[str, set[int]](), True
        for drop in drops:
            if delivery is None and not os.path.lexists(layout.state / drop.path) and os.path.lexists(inbox / drop.origin):
                continue
            title = f"drop {drop.number} of {name}"
            found = _list_drop(layout, drop, unreadable)
            whole = whole and found is not None
            if drop.id in unreadable:
                yield Finding("I1", f"{title} cannot be read: {unreadable[drop.id]}", "make all of it readable for adaptd")
                continue
            if drop.id in late and late[drop.id].late:
                names = tell(sorted(map(spell, late[drop.id].late)))
                yield Finding("I1", f"{title}: {names}: written after it was imported", TAKE_IN)
            if found is not None and drop.id in late:
                found = _without_new(found, late[drop.id], view.images[domain_id])
            for path, size in (found or {}).items():
                sizes.setdefault(path, set()).add(size)
            yield from _check_drop(title, layout, drop, found, aside[drop.id])
        if delivery and whole:
            gone = {image_id for drop in drops if drop.id in late for image_id in late[drop.id].overwritten}
            kept = (i for i in view.images[domain_id] if i.delivery == delivery and i.id not in gone)
            yield from _check_images(name, delivery, [i for i in kept if i.state is ImageState.ACCEPTED], sizes)


def find_late_files(view: View, layout: Layout, unreadable: dict[int, str]) -> dict[int, Claimed]:
    """The drops, by id, that hold files which no import has seen as they are; images must be in the view.

    Why others cannot be looked at is put into `unreadable`.
    """
    aside, found = view.quarantine_by_drop(), {}
    for drop in view.drops:
        folder = layout.state / drop.path
        if drop.delivery is None or is_forgotten(drop, view.kept) or Path(drop.path).is_absolute() or not folder.is_dir():
            continue
        pending = {item.name for item in aside[drop.id] if item.path is None}
        try:
            claimed = read_claimed(folder, drop, partial(view.images.__getitem__, drop.domain_id), pending, every=True)
        except OSError as problem:
            if problem.errno in REPLACED:  # it changes while we look
                continue
            unreadable[drop.id] = problem.strerror or str(problem)
            continue
        if claimed.late or claimed.damaged:
            found[drop.id] = claimed
    return found


def check_strays(view: View, layout: Layout) -> Iterator[Finding]:
    """I1: nothing lies among the drops that no row knows."""
    known = {layout.state / drop.path for drop in view.drops}
    for folder in _entries(layout.drops):
        for path in _entries(folder) if folder.is_dir() and not folder.is_symlink() else [folder]:
            if path not in known and not path.name.startswith("."):
                yield Finding(
                    "I1",
                    f"{printable(path)}: the store does not know it",
                    "start the daemon, which takes in what it had claimed; else move it into the inbox",
                )


def check_quarantine(view: View, layout: Layout) -> Iterator[Finding]:
    """I1: every quarantined file is there, and nothing else lies in quarantine."""
    drops, known = {drop.id: drop for drop in view.drops}, set[Path]()
    for item in view.quarantine:
        places = _places(view, layout, drops, item)
        known.update(places)
        if has_changed(item, layout):
            yield _tell_changed(f"quarantine {item.id}: {item.name} of {view.domains[item.domain_id].name}", places[0], item)
        if not any(os.path.lexists(place) for place in places) and _must_exist(item):
            yield Finding(
                "I1",
                f"quarantine {item.id}: {item.name} of {view.domains[item.domain_id].name} is gone",
                f"{RESTORE}, or forget it: adaptd quarantine purge {item.id}",
            )
    for path in _unknown(layout.quarantined, known):
        yield Finding("I1", f"{printable(path)}: the store does not know it", "move it into the inbox, or delete it")


def check_duplicates(view: View) -> Iterator[Finding]:
    """I2: no content twice in a domain, and the counts say so too."""
    quarantined = Counter(item.domain_id for item in view.quarantine)
    for key, images in view.images.items():
        domain = view.domains[key]
        for sha256, count in Counter(image.sha256 for image in images).items():
            if count > 1:
                yield Finding(
                    "I2", f"{domain.name}: image {sha256[:12]}… is there {count} times", "restore the database's backup"
                )
        aside = quarantined[key]
        for what, counted, rows in (("images", domain.images, len(images)), ("quarantined", domain.quarantined, aside)):
            if counted != rows:
                fact = f"{domain.name}: counts {counted} {what}, but has {rows}"
                yield Finding("I2", fact, f"set {what} = {rows} in the row of the domain, or restore the database's backup")


def _by_delivery(drops: Iterable[DropRecord]) -> dict[tuple[int, int | None], list[DropRecord]]:
    found: dict[tuple[int, int | None], list[DropRecord]] = defaultdict(list)
    for drop in drops:
        found[drop.domain_id, drop.delivery].append(drop)
    return found


def _list_drop(layout: Layout, drop: DropRecord, unreadable: dict[int, str]) -> dict[str, int] | None:
    """The sizes of a drop's files by name; None where it is not ours, unreadable, or its originals were deleted on purpose."""
    if drop.id in unreadable or Path(drop.path).is_absolute() or not drop.files:
        return None
    try:
        return {name: entry.stat(follow_symlinks=False).st_size for name, entry in list_files(layout.state / drop.path)}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as problem:
        unreadable[drop.id] = problem.strerror or str(problem)
        return None


def _without_new(found: Mapping[str, int], late: Claimed, images: Iterable[Image]) -> dict[str, int]:
    """A drop's files without those that came late; images that were overwritten still count as files of it."""
    old = {image.name for image in images if image.id in late.overwritten}
    new = {spell(path) for path in late.late} - old
    return {path: size for path, size in found.items() if path not in new}


def _check_images(name: str, delivery: int, images: Sequence[Image], sizes: Mapping[str, set[int]]) -> Iterator[Finding]:
    """Whether the files of accepted images are there, and as large as they were."""
    missing = sorted(image.name for image in images if image.name not in sizes)
    if missing:
        yield Finding("I1", f"{name}: {tell(missing)} of delivery {delivery}: in no drop any more", RESTORE)
    changed = sorted(image.name for image in images if image.size_bytes not in sizes.get(image.name, {image.size_bytes}))
    if changed:
        yield Finding("I1", f"{name}: {tell(changed)} of delivery {delivery}: not as large as what was accepted", RESTORE)


def _tell_changed(title: str, place: Path, item: Quarantined) -> Finding:
    """Somebody went on writing, or bytes were lost: the time of change is the kernel's."""
    status = os.lstat(place)
    if status.st_ctime > item.created_at.timestamp():
        return Finding("I1", f"{title} was written after it was quarantined", TAKE_IN)
    return Finding("I1", f"{title} has {status.st_size:,} bytes, not {item.size_bytes:,}", RESTORE)


def _check_drop(
    title: str, layout: Layout, drop: DropRecord, found: Mapping[str, int] | None, aside: list[Quarantined]
) -> Iterator[Finding]:
    path = layout.state / drop.path
    if found is None:
        if drop.delivery is None and drop.files and not path.is_dir():
            yield Finding("I1", f"{title}: {path} is not there, and its images wait to be read", "mount it, or put it back")
        return
    counted = [item for item in aside if is_counted(item.name)]
    pending = sum(item.name in found for item in counted if item.path is None)
    if drop.delivery is None:
        # A file may have come between the last look and the claim: more than were counted are fine.
        least = drop.files - (len(counted) - pending)
        wrong, wanted = len(found) < least, f"at least {least}"
    else:
        expected = drop.accepted + drop.duplicates + pending
        wrong, wanted = len(found) != expected, f"{expected}"
    if wrong:
        yield Finding("I1", f"{title}: {path} holds {len(found)} files, not {wanted}", f"{RESTORE}; it is as it came")


def _places(view: View, layout: Layout, drops: dict[int, DropRecord], item: Quarantined) -> tuple[Path, ...]:
    """Where a quarantined file may lie: it may be on its way into quarantine, or out of it."""
    if item.drop_id is None or (item.path is not None and not Path(item.path).is_absolute()):
        return (layout.state / (item.path or item.name),)
    drop = drops[item.drop_id]
    return (
        layout.state / drop.path / item.name,
        *quarantine_places(layout, view.domains[item.domain_id], drop, item),
    )


def _must_exist(item: Quarantined) -> bool:
    """Files that were imported from a user's folder are the user's; those on their way out may have arrived.

    Odd bytes are spelled out in names: a file that was not moved yet is not found by such a name.
    """
    if item.path is None:
        return item.drop_id is not None and "\\" not in item.name
    return not Path(item.path).is_absolute()


def _unknown(folder: Path, known: set[Path]) -> Iterator[Path]:
    for path in _entries(folder):
        if path in known:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _unknown(path, known)
        else:
            yield path


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def tell(names: list[str]) -> str:
    """A few names, and how many more."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def by_part(images: Iterable[Image]) -> dict[tuple[int, str], list[Image]]:
    """A domain's images by delivery and split."""
    found: dict[tuple[int, str], list[Image]] = defaultdict(list)
    for image in images:
        found[image.delivery, image.split].append(image)
    return found
