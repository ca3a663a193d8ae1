"""I1 for decoded images: every cache and memory that the store counts on is there and holds its images. Needs numpy."""

import os
from collections.abc import Iterator
from pathlib import Path

from adaptd.care.images import by_part, tell
from adaptd.care.view import Finding, ShowProgress, View, list_files
from adaptd.errors import CacheUnusable
from adaptd.files import hash_file
from adaptd.library.cache import damaged_rows, open_cache
from adaptd.library.memories import find_memory_episodes
from adaptd.project.layout import Layout
from adaptd.records import EpisodeState, ImageState, Split

AGAIN = "restore the folder from a backup"


def check_caches(view: View, layout: Layout) -> Iterator[Finding]:
    """I1: the decoded images of every delivery that an episode learned from, or still will, and of every memory."""
    for folder, title, ids in _wanted(view, layout):
        try:
            found = set(open_cache(folder).index.ids)
        except (CacheUnusable, OSError) as problem:
            yield Finding("I1", f"{title}: {problem}", AGAIN)
            continue
        if found != ids:
            fact = f"{title}: {folder} lacks {len(ids - found)} of its {len(ids)} images, and has {len(found - ids)} others"
            yield Finding("I1", fact, AGAIN)


def check_pixels(view: View, layout: Layout, show: ShowProgress) -> Iterator[Finding]:
    """I1, reading everything: the pixels are those that were written."""
    wanted = list(_wanted(view, layout))
    for number, (folder, title, _) in enumerate(wanted):
        show(number, len(wanted))
        try:
            damaged = damaged_rows(open_cache(folder))
        except (CacheUnusable, OSError):
            continue  # told by check_caches
        if damaged:
            yield Finding("I1", f"{title}: {len(damaged)} images in {folder} are damaged, the first is row {damaged[0]}", AGAIN)
    show(len(wanted), len(wanted))


def check_originals(view: View, layout: Layout, show: ShowProgress) -> Iterator[Finding]:
    """I1, reading everything: every accepted image of a drop is still there, byte for byte."""
    deliveries: dict[tuple[int, int], list[Path]] = {}
    for drop in view.drops:
        if drop.delivery and drop.files and not Path(drop.path).is_absolute():
            deliveries.setdefault((drop.domain_id, drop.delivery), []).append(layout.state / drop.path)
    total, done = sum(len(view.images[domain_id]) for domain_id, _ in deliveries), 0
    for (domain_id, delivery), folders in deliveries.items():
        hashes = set()
        for path in (Path(entry.path) for folder in folders for entry in _regular(folder)):
            hashes.add(hash_file(path))
            done += 1
            show(min(done, total), total)
        kept = (i for i in view.images[domain_id] if i.delivery == delivery and i.state is ImageState.ACCEPTED)
        changed = sorted(image.name for image in kept if image.sha256 not in hashes)
        if changed:
            title = view.domains[domain_id].name
            yield Finding(
                "I1",
                f"{title}: {tell(changed)} of delivery {delivery}: not the bytes that were accepted",
                "restore it from a backup",
            )


def _wanted(view: View, layout: Layout) -> Iterator[tuple[Path, str, set[int]]]:
    """Folder, title and image ids of every cache and memory that something counts on."""
    over = {EpisodeState.FAILED, EpisodeState.CANCELLED}
    live = {(episode.domain_id, episode.delivery) for episode in view.episodes if episode.state not in over}
    for domain_id, images in view.images.items():
        name = view.domains[domain_id].name
        for (delivery, split), part in by_part(images).items():
            if (domain_id, delivery) in live:
                yield (
                    layout.cache(domain_id, delivery, Split(split)),
                    f"{name}, delivery {delivery}",
                    {image.id for image in part},
                )
    remembered = find_memory_episodes(view.episodes)
    for domain_id, ids in view.memory.items():
        if domain_id in remembered:
            yield layout.memory(domain_id, remembered[domain_id]), f"the memory of {view.domains[domain_id].name}", set(ids)


def _regular(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        yield from (entry for _, entry in list_files(folder) if entry.is_file(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return
