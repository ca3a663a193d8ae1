"""I1 and I2: every image is in exactly one place, and none is twice in a domain. Opens no image and no cache."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from adaptd.care.view import Finding, View, is_counted, list_files, quarantine_places
from adaptd.project.layout import Layout
from adaptd.records import DropRecord, Image, ImageState, Quarantined
from adaptd.text import printable

NAMED = 3
"""Files that a finding names; of the rest it says how many there are."""

RESTORE = "restore it from a backup"


def check_drops(view: View, layout: Layout, inbox: Path) -> Iterator[Finding]:
    """I1: each drop lies where its row says, with all its files; and its accepted images are among them.

    The row comes before the claim: a drop that was not imported may still be in the inbox.
    """
    aside = view.quarantine_by_drop()
    for (domain_id, delivery), drops in _by_delivery(view.drops).items():
        name, names, whole = view.domains[domain_id].name, set[str](), True
        for drop in drops:
            if delivery is None and not os.path.lexists(layout.state / drop.path) and os.path.lexists(inbox / drop.origin):
                continue
            found = _list_drop(layout, drop)
            whole = whole and found is not None
            names.update(found or ())
            yield from _check_drop(f"drop {drop.number} of {name}", layout, drop, found, aside[drop.id])
        if delivery and whole:
            kept = (i for i in view.images[domain_id] if i.delivery == delivery and i.state is ImageState.ACCEPTED)
            missing = sorted(image.name for image in kept if image.name not in names)
            if missing:
                yield Finding("I1", f"{name}: {tell(missing)} of delivery {delivery}: in no drop any more", RESTORE)


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


def _list_drop(layout: Layout, drop: DropRecord) -> set[str] | None:
    """The names of a drop's files; None where it is not ours, or its originals were deleted on purpose."""
    if Path(drop.path).is_absolute() or not drop.files:
        return None
    try:
        return {name for name, _ in list_files(layout.state / drop.path)}
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _check_drop(
    title: str, layout: Layout, drop: DropRecord, found: set[str] | None, aside: list[Quarantined]
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
