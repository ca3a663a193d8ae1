"""A folder of images becomes a domain: decoded, recorded, queued for its episode. Trains nothing.

First the rows (the domain is `arriving`), then the caches, then the episode (the domain is `queued`): a process killed between
any two of these goes on when the same folder is imported again.
"""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from adaptd.config import Project
from adaptd.daemon.layout import Layout
from adaptd.errors import ConfigError, FolderUnusable, NothingToLearn
from adaptd.library.draft import Decoded, Draft, ShowProgress, decode_files
from adaptd.library.folders import Found, Listing, list_domain, list_source, list_test_set, split_by_class
from adaptd.library.preprocessing import Limits, Preprocessing
from adaptd.records import SOURCE, Domain, DomainState, Episode, NewImage, Split
from adaptd.store import NewEpisode, Store, Transaction

SUPERVISED = "supervised"
"""The method of episode 0."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of a folder."""

    episode: Episode
    train: int
    test: int
    rejected: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports folders into one project."""

    project: Project
    store: Store
    progress: ShowProgress | None = None

    def showing(self, progress: ShowProgress) -> "Importer":
        """The same, telling how many files are done."""
        return replace(self, progress=progress)

    def import_source(self, folder: Path) -> Imported:
        """A labelled folder, one sub-folder a class; splits off a test set unless it brings `_test/`."""
        listing = list_source(folder)
        settings = self.project.settings
        with self._decode(listing) as draft:
            classes = _check_classes(draft, settings.model.classes, folder)
            if listing.test:
                tests = set(listing.test)
                test = [image for image in draft.images if image.file in tests]
                train = [image for image in draft.images if image.file not in tests]
            else:
                seed = settings.training.seed
                train, test = map(list, split_by_class(draft.images, _label, settings.source.test_fraction, seed))
            if len({_label(image) for image in train}) < 2:
                raise FolderUnusable(
                    f"{folder} has usable training images of fewer than two classes; see which files were rejected"
                )
            return self._record(_Drop(SOURCE, SUPERVISED, draft, listing.strays, train, test, classes))

    def import_domain(self, folder: Path, name: str, test_folder: Path | None = None) -> Imported:
        """An unlabelled folder, with a labelled test set in `_test/` or beside it."""
        listing = list_domain(folder)
        if test_folder is not None:
            extra = list_test_set(test_folder)
            listing = Listing(listing.train, listing.test + extra.test, listing.strays + extra.strays)
        classes = self._known_classes()
        tests = set(listing.test)
        with self._decode(listing) as draft:
            test = [image for image in draft.images if image.file in tests]
            unknown = sorted({_label(image) for image in test} - set(classes))
            if unknown:
                raise FolderUnusable(
                    f"the test images of {folder} have a class {unknown[0]!r} that the source does not know: {classes}"
                )
            train = [image for image in draft.images if image.file not in tests]
            least = self.project.settings.intake.minimum_images
            if len(train) < least:
                rejected = f", {len(draft.rejected)} were rejected (the first: {_first(draft)})" if draft.rejected else ""
                raise NothingToLearn(
                    f"{folder} has {len(train)} usable images, fewer than intake.minimum_images = {least}{rejected}"
                )
            method = self.project.settings.method.name
            return self._record(_Drop(name, method, draft, listing.strays, train, test, classes))

    def find_unfinished(self, name: str) -> Episode | None:
        """The episode of a domain that was queued or interrupted."""
        with self.store.reading() as tx:
            domain = tx.domains.find(name)
            return None if domain is None else tx.episodes.find_unfinished(domain.id)

    def _known_classes(self) -> tuple[str, ...]:
        with self.store.reading() as tx:
            version = tx.versions.find_latest()
        if version is None:
            raise NothingToLearn("there is no source model yet: run `adaptd source import DIR` first")
        return version.classes

    def _decode(self, listing: Listing) -> AbstractContextManager[Draft]:
        intake, size = self.project.settings.intake, self.project.settings.model.image_size
        limits = Limits(intake.max_file_bytes, intake.max_pixels)
        # Of two files with the same bytes the first is kept: a test image must not be trained on.
        files = (*listing.test, *listing.train)
        return decode_files(files, Layout(self.project.state).caches, Preprocessing(size), limits, self.progress)

    def _record(self, drop: "_Drop") -> Imported:
        with self.store.writing() as tx:
            domain = tx.domains.find(drop.name) or tx.domains.add(drop.name, DomainState.ARRIVING)
            batch = _open_batch(tx, domain)
            for split, images in drop.parts:
                tx.images.add_many(domain.id, [_new(image, split, batch) for image in images])
            tx.domains.set_state(domain.id, DomainState.ARRIVING)
            mine = {image.sha256: image.id for image in tx.images.list_for(domain.id) if image.batch == batch}
        layout = Layout(self.project.state)
        train, test = (
            self._seal(drop.draft, images, mine, layout.cache(domain.id, batch, split), drop.classes)
            for split, images in drop.parts
        )
        if not train:
            self._close_empty(domain)
            raise NothingToLearn(f"every image was in domain {drop.name} before: there is nothing new to learn")
        with self.store.writing() as tx:
            episode = self._queue(tx, domain, drop, batch)
        return Imported(episode, train, test, len(drop.draft.rejected) + len(drop.strays), len(drop.draft.duplicates))

    def _seal(self, draft: Draft, images: Sequence[Decoded], ids: dict[str, int], target: Path, classes: tuple[str, ...]) -> int:
        """Write the cache of one split; images that an earlier batch has are left out."""
        named = [(image, ids[image.sha256]) for image in images if image.sha256 in ids]
        labels = [classes.index(_label(image)) for image, _ in named] if named and named[0][0].file.label is not None else None
        # The domain is still `arriving`: whatever a killed process left here was never counted.
        shutil.rmtree(target, ignore_errors=True)
        if named:
            draft.seal(target, named, labels)
        return len(named)

    def _queue(self, tx: Transaction, domain: Domain, drop: "_Drop", batch: int) -> Episode:
        settings, draft = self.project.settings, drop.draft
        for item in draft.rejected:
            tx.quarantine.add(domain.id, item.file.name, item.reason, item.detail, str(item.file.path))
        for file in drop.strays:
            tx.quarantine.add(domain.id, file.name, "no-class", "stands outside of any class folder", str(file.path))
        tx.domains.set_state(domain.id, DomainState.QUEUED)
        config = settings.model_dump(mode="json")
        config["model"]["classes"] = list(drop.classes)
        episode = tx.episodes.add(NewEpisode(domain.id, drop.method, settings.training.seed, config, settings.hash, batch))
        message = f"{domain.name}: {len(draft.images)} images accepted, {len(draft.rejected) + len(drop.strays)} set aside"
        tx.events.add("domain-queued", message, domain_id=domain.id, episode_id=episode.id, duplicates=len(draft.duplicates))
        return episode

    def _close_empty(self, domain: Domain) -> None:
        with self.store.writing() as tx:
            tx.domains.set_state(domain.id, DomainState.DONE)


@dataclass(frozen=True, slots=True)
class _Drop:
    """A decoded folder on its way into the store."""

    name: str
    method: str
    draft: Draft
    strays: tuple[Found, ...]
    train: Sequence[Decoded]
    test: Sequence[Decoded]
    classes: tuple[str, ...]

    @property
    def parts(self) -> tuple[tuple[Split, Sequence[Decoded]], ...]:
        return (Split.TRAIN, self.train), (Split.TEST, self.test)


def _open_batch(tx: Transaction, domain: Domain) -> int:
    """The batch a killed import left open, else the next one."""
    last = max((image.batch for image in tx.images.list_for(domain.id)), default=0)
    return max(last, 1) if domain.state is DomainState.ARRIVING else last + 1


def _check_classes(draft: Draft, wanted: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    found = {image.file.label for image in draft.images if image.file.label is not None}
    if not wanted:
        return tuple(sorted(found))
    if found - set(wanted):
        raise ConfigError(f"{folder} has a class {min(found - set(wanted))!r} that model.classes does not list: {list(wanted)}")
    return wanted


def _label(image: Decoded) -> str:
    assert image.file.label is not None
    return image.file.label


def _first(draft: Draft) -> str:
    item = draft.rejected[0]
    return f"{item.file.name}, {item.reason}: {item.detail}"


def _new(image: Decoded, split: Split, batch: int) -> NewImage:
    return NewImage(image.sha256, image.size_bytes, image.file.name, split, image.file.label, batch, image.width, image.height)
