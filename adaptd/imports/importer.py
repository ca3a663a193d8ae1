"""A folder of images becomes a domain: decoded, recorded, queued for its episode. Trains nothing.

First the rows (the domain is `arriving`), then the caches, then the episode (the domain is `queued`). A delivery counts once an
episode is queued for it: what a killed import or a failed episode left of a delivery is replaced by the next import. Drops that
came through the inbox wait until there are enough of them for a delivery.
"""

import json
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from adaptd.errors import ConfigError, EpisodeError, FolderUnusable, NothingToLearn, StoreConflict, WeightsUnavailable
from adaptd.imports.delivery import Drop, apart, check_classes, counted, gather, label_of, new_image, outside_of_classes
from adaptd.imports.quarantine import move_aside
from adaptd.library.cache import remove_unfinished
from adaptd.library.draft import Decoded, Draft, ShowProgress, decode_files
from adaptd.library.folders import Listing, list_domain, list_source, list_test_set, split_by_class
from adaptd.library.preprocessing import Limits, Preprocessing
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.settings import Settings
from adaptd.records import SOURCE, SUPERVISED, Domain, DomainState, Episode, EventKind
from adaptd.store import NewEpisode, Store, Transaction
from adaptd.text import printable

MODEL_KEYS = ("classes", "backbone", "image_size", "mean", "std", "projector_hidden", "projector_output")
"""The settings that a model is made with and that cannot change afterwards; the classes may also be left to the source."""


NOTHING_NEW = 0
"""The delivery of drops that brought none."""


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

    def import_source(self, folder: Path) -> Imported:
        """A labelled folder, one sub-folder a class; splits off a test set unless it brings `_test/`."""
        self._check_source()
        listing = list_source(folder)
        settings = self.project.settings
        with self._decode(listing) as draft:
            if listing.test:
                train, test = apart(draft, listing)
            else:
                seed = settings.training.seed
                train, test = map(list, split_by_class(draft.images, label_of, settings.source.test_fraction, seed))
            classes = check_classes(listing, draft, train, settings.model.classes, folder)
            if len({label_of(image) for image in train}) < 2 or not test:
                raise FolderUnusable(
                    f"{folder} needs usable training images of two classes and a test image, not {counted(draft, train, test)}"
                )
            refused = outside_of_classes(listing.strays)
            return self._record(Drop(SOURCE, str(folder), SUPERVISED, draft, refused, train, test, classes))

    def import_domain(self, folder: Path, name: str, test_folder: Path | None = None) -> Imported:
        """An unlabelled folder, with a labelled test set in `_test/` or beside it."""
        classes = self._check_model()
        listing = list_domain(folder)
        if test_folder is not None:
            extra = list_test_set(test_folder)
            listing = Listing(listing.train, listing.test + extra.test, listing.strays + extra.strays)
        unknown = sorted({file.label for file in listing.test if file.label is not None} - set(classes))
        if unknown:
            raise FolderUnusable(
                f"the test images of {folder} have a class {unknown[0]!r} that the source does not know: "
                f"rename or remove its folder; known are {', '.join(classes)}"
            )
        with self._decode(listing) as draft:
            train, test = apart(draft, listing)
            method = self.project.settings.method.name
            refused = outside_of_classes(listing.strays)
            return self._record(Drop(name, str(folder), method, draft, refused, train, test, classes))

    def import_drops(self, domain: Domain) -> Imported | None:
        """All waiting drops of a domain as one delivery; None where they do not make one, the domain then says why."""
        classes = self._check_model()
        layout = Layout(self.project.state)
        # Nobody else imports: left by one that was killed.
        remove_unfinished(layout.caches)
        move_aside(self.store, layout)
        with self.store.reading() as tx:
            # A drop has its row a moment before it has its folder.
            waiting = [drop for drop in tx.drops.list_waiting(domain.id) if (layout.state / drop.path).is_dir()]
        while True:
            found = gather(waiting, layout.state, classes)
            with self._decode(found.listing) as draft:
                # A program may go on writing into a folder that was renamed under it.
                if gather(waiting, layout.state, classes) != found:
                    continue
                train, test = apart(draft, found.listing)
                where, method = f"the inbox's {domain.name}", self.project.settings.method.name
                drop = Drop(domain.name, where, method, draft, found.refused, train, test, classes, 0, found.origins, found.ours)
                imported = self._record_drops(drop, [drop.id for drop in waiting])
            move_aside(self.store, layout)
            return imported

    def find_unfinished(self, name: str) -> Episode | None:
        """The episode of a domain that was queued or interrupted."""
        with self.store.reading() as tx:
            domain = tx.domains.find(name)
            return None if domain is None else tx.episodes.find_unfinished(domain.id)

    def _check_source(self) -> None:
        """Refuse what would fail only after all images are decoded."""
        with self.store.reading() as tx:
            if tx.versions.find_latest() is not None:
                raise EpisodeError("the source was imported already: make another project for another source")
        weights = self.project.settings.model.weights
        if weights not in {"", "torchvision"} and not (self.project.root / weights).is_file():
            raise WeightsUnavailable(f"there is no weights file {self.project.root / weights}: check --weights or model.weights")

    def _check_model(self) -> tuple[str, ...]:
        """The classes of the newest model, which must still be the one that the settings describe."""
        with self.store.reading() as tx:
            version = tx.versions.find_latest()
            if version is None:
                raise NothingToLearn("there is no source model yet: run `adaptd source import DIR` first")
            built = tx.episodes.get(version.episode_id).config["model"]
        wanted = self.project.settings.model.model_dump(mode="json")
        for key in MODEL_KEYS if wanted["classes"] else MODEL_KEYS[1:]:
            if wanted[key] != built[key]:
                raise ConfigError(
                    f"model.{key} is {wanted[key]} in the settings, but the model was made with {built[key]}: "
                    "set it back, or make another project"
                )
        return version.classes

    def _decode(self, listing: Listing) -> AbstractContextManager[Draft]:
        intake, size = self.project.settings.intake, self.project.settings.model.image_size
        limits = Limits(intake.max_file_bytes, intake.max_pixels)
        # Of two files with the same bytes the first is kept: a test image must not be trained on.
        files = (*listing.test, *listing.train)
        return decode_files(files, Layout(self.project.state).caches, Preprocessing(size), limits, self.progress)

    def _record(self, drop: Drop, waiting: Sequence[int] = ()) -> Imported:
        with self.store.writing() as tx:
            domain = tx.domains.find(drop.name) or tx.domains.add(drop.name, DomainState.ARRIVING)
            _require_wanted(domain, waiting)
            delivery = tx.episodes.last_delivery(domain.id) + 1
            drop = self._without_known(tx, drop, domain, delivery)
            if domain.name != SOURCE:
                self._require_enough(drop)
            ids: dict[str, int] = {}
            for split, images in drop.parts:
                ids |= tx.images.add_many(domain.id, [new_image(image, split, delivery) for image in images])
            if not waiting:  # else it stays settled: after a kill its drops are the next to import again
                tx.domains.set_state(domain.id, DomainState.ARRIVING)
        for split, images in drop.parts:
            self._seal(drop, images, ids, Layout(self.project.state).cache(domain.id, delivery, split))
        with self.store.writing() as tx:
            _require_wanted(tx.domains.get(domain.id), waiting)
            episode = self._queue(tx, domain, drop, delivery)
            tx.drops.take_in(waiting, delivery)
            if waiting and self.project.settings.intake.trigger == "manual":
                tx.pauses.add(domain.name, f"intake.trigger is manual: `adaptd resume {domain.name}` starts it")
            for drop_id, (accepted, duplicates) in drop.counts().items():
                tx.drops.count(drop_id, accepted, duplicates)
        return Imported(episode, len(drop.train), len(drop.test), drop.set_aside, len(drop.draft.duplicates))

    def _record_drops(self, drop: Drop, waiting: Sequence[int]) -> Imported | None:
        """As `_record`, where too little is no error: the drops wait for more, or are over if all of it was known."""
        with self.store.writing() as tx:
            domain = tx.domains.get_named(drop.name)
            _require_wanted(domain, waiting)
            left = self._without_known(tx, drop, domain, tx.episodes.last_delivery(domain.id) + 1)
            try:
                self._require_enough(left)
            except NothingToLearn as problem:
                self._quarantine(tx, domain, drop)
                over = left.known > 0 and not (left.train or left.test)
                if over:
                    tx.drops.take_in(waiting, NOTHING_NEW)
                    for drop_id, (accepted, duplicates) in left.counts().items():
                        tx.drops.count(drop_id, accepted, duplicates)
                state = DomainState.DONE if over and domain.position is not None else DomainState.SETTLED
                # What came meanwhile may be enough.
                more = {other.id for other in tx.drops.list_waiting(domain.id)} - set(waiting)
                tx.domains.set_state(domain.id, state, None if more else str(problem))
                tx.events.add(EventKind.DROP_NOTHING_NEW if over else EventKind.DROP_WAITS, str(problem), domain_id=domain.id)
                return None
        return self._record(drop, waiting)

    def _without_known(self, tx: Transaction, drop: Drop, domain: Domain, delivery: int) -> Drop:
        """Only what no earlier delivery has.

        What is there of this one no model has learned from: its import was killed, or its episode failed.
        """
        tx.images.remove_delivery(domain.id, delivery)
        return drop.without({image.sha256 for image in tx.images.list_for(domain.id)})

    def _require_enough(self, drop: Drop) -> None:
        least = self.project.settings.intake.minimum_images
        if len(drop.train) >= least:
            return
        if drop.known and not drop.train:
            raise NothingToLearn(f"every image of {drop.where} was in domain {drop.name} before: there is nothing new to learn")
        before = f", {drop.known} were in domain {drop.name} before" if drop.known else ""
        raise NothingToLearn(
            f"{drop.where} has too few images to learn from, intake.minimum_images is {least}: "
            f"{counted(drop.draft, drop.train, drop.test)}{before}"
        )

    def _seal(self, drop: Drop, images: Sequence[Decoded], ids: dict[str, int], target: Path) -> None:
        """Write the cache of one split."""
        labels = None if not images or images[0].file.label is None else [drop.classes.index(label_of(image)) for image in images]
        # No episode counts on this delivery: whatever lies here is left over.
        shutil.rmtree(target, ignore_errors=True)
        if images:
            drop.draft.seal(target, [(image, ids[image.sha256]) for image in images], labels)

    def _queue(self, tx: Transaction, domain: Domain, drop: Drop, delivery: int) -> Episode:
        self._quarantine(tx, domain, drop)
        tx.domains.set_state(domain.id, DomainState.QUEUED)
        config = self.project.settings.model_dump(mode="json")
        config["model"]["classes"] = list(drop.classes)
        settings = Settings.model_validate_json(json.dumps(config))
        episode = tx.episodes.add(NewEpisode(domain.id, drop.method, settings.training.seed, config, settings.hash, delivery))
        message = f"{domain.name}: {len(drop.train) + len(drop.test)} images accepted, {drop.set_aside} set aside"
        duplicates = len(drop.draft.duplicates)
        tx.events.add(EventKind.DOMAIN_QUEUED, message, domain_id=domain.id, episode_id=episode.id, duplicates=duplicates)
        return episode

    def _quarantine(self, tx: Transaction, domain: Domain, drop: Drop) -> None:
        for reason, detail, file in drop.newly_refused(tx.quarantine.list_all(domain.id)):
            drop_id = drop.moved_from(file)
            tx.quarantine.add(domain.id, file.name, reason, detail, None if drop_id else printable(file.path), drop_id)


def _require_wanted(domain: Domain, waiting: Sequence[int]) -> None:
    """A person may have cancelled a domain while its drops were decoded."""
    if waiting and domain.state is DomainState.SKIPPED:
        raise StoreConflict(f"{domain.name} was cancelled")
