"""A folder of images becomes a delivery of a domain: listed, decoded, recorded, queued for its episode. Trains nothing.

Images are accepted in one transaction, together with the episode that is queued for them. Caches name their images by id and
must be on disk before that, as must the files of drops, so a short transaction before it reserves the ids, and the row of a
domain that is new; the database is not locked while files are written. Killed anywhere before the commit, an import leaves
nothing that counts: ids that are not used, and caches that the next import of the same delivery replaces. What a failed episode
left of a delivery is replaced in the same way. Drops that came through the inbox wait until there are enough of them for a
delivery.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from adaptd.errors import ConfigError, EpisodeError, NothingToLearn, WeightsUnavailable
from adaptd.files import remove, sync_trees
from adaptd.imports.commit import Imported, commit, mark_unsynced, reserve, wait_for_more, withdraw_source
from adaptd.imports.delivery import Delivery, Known, build_delivery
from adaptd.imports.incoming import Incoming, list_domain_folder, list_drops, list_source_folders
from adaptd.imports.quarantine import move_to_quarantine
from adaptd.imports.rewriting import write_again
from adaptd.library.cache import remove_unfinished
from adaptd.library.draft import Draft, ShowProgress, decode_files
from adaptd.library.preprocessing import Limits, Preprocessing
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import NEW_SOURCE, SOURCE, Domain, Episode, Version, VersionState
from adaptd.store import Store

MODEL_KEYS = ("classes", "backbone", "image_size", "mean", "std", "projector_hidden", "projector_output")
"""The settings that a model is made with and that cannot change afterwards; the classes may also be left to the source."""

LOOKS = 3
"""How often the images of a folder that changes meanwhile are decoded again; what changes then comes as a later delivery."""


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports folders into one project; only one at a time may."""

    project: Project
    store: Store
    progress: ShowProgress | None = None

    @property
    def _layout(self) -> Layout:
        return Layout(self.project.state)

    def import_source(self, *folders: Path, again: bool = False) -> Imported:
        """Labelled folders, one sub-folder a class; splits off a test set unless they bring `_test/`.

        The source that is there is replaced where that is wanted `again`: only once the new one's episode is committed.
        """
        promoted = self._check_source(again=again)
        incoming = list_source_folders(folders, SOURCE if promoted is None else NEW_SOURCE)
        if promoted is not None:
            self._check_successor(promoted, incoming)
        else:
            with self.store.writing() as tx:
                withdraw_source(tx)
        return self._import_folder(incoming, ())

    def import_domain(self, folder: Path, name: str, test_folder: Path | None = None) -> Imported:
        """An unlabelled folder, with a labelled test set in `_test/` or beside it."""
        classes = self._check_model()
        return self._import_folder(list_domain_folder(folder, name, test_folder, classes), classes)

    def import_drops(self, domain: Domain) -> Imported | None:
        """All waiting drops of a domain as one delivery; None where they do not make one, the domain then says why."""
        classes = self._check_model()
        state = self._layout.state
        # Nobody else imports: left by one that was killed.
        remove_unfinished(self._layout.caches)
        move_to_quarantine(self.store, self._layout)
        with self.store.reading() as tx:
            # A drop has its row a moment before it has its folder.
            drops = tuple(drop for drop in tx.drops.list_waiting(domain.id) if (state / drop.path).is_dir())
        for drop in drops:
            if drop.unsynced and not Path(drop.path).is_absolute():
                write_again(state / drop.path)
        return self._import(lambda: list_drops(domain, drops, state, classes), classes)

    def find_unfinished(self, name: str) -> Episode | None:
        """The episode of a domain that was queued or interrupted."""
        with self.store.reading() as tx:
            domain = tx.domains.find(name)
            return None if domain is None else tx.episodes.find_unfinished(domain.id)

    def _import_folder(self, incoming: Incoming, classes: tuple[str, ...]) -> Imported:
        imported = self._import(lambda: incoming, classes)
        assert imported is not None, "only drops can wait for more"
        return imported

    def _import(self, list_files: Callable[[], Incoming], classes: tuple[str, ...]) -> Imported | None:
        """The walk of every import: list, decode, build, seal, commit, move.

        Raises:
            NothingToLearn: a folder has too few images. Drops wait for more instead, and None says so.
        """
        imported = None
        with self._list_and_decode(list_files) as (incoming, draft):
            delivery = build_delivery(incoming, draft, self._read_known(incoming.name), classes, self.project.settings)
            if delivery.shortage is None:
                domain, ids = reserve(self.store, delivery)
                self._seal(draft, delivery, domain, ids)
                self._sync(delivery)
                imported = commit(self.store, delivery, domain, ids, self.project.settings)
            elif incoming.drops is None:
                raise NothingToLearn(delivery.shortage)
            else:
                self._sync(delivery)
                wait_for_more(self.store, delivery, delivery.shortage)
        move_to_quarantine(self.store, self._layout)
        return imported

    def _check_source(self, *, again: bool) -> Version | None:
        """Refuse what would fail only after all images are decoded; the version that a new source would follow."""
        with self.store.reading() as tx:
            newest, promoted = tx.versions.find_latest(), tx.versions.find_latest(VersionState.PROMOTED)
        # The first version of all, rejected: the source may be trained again.
        if newest is not None and (newest.version, newest.state) != (1, VersionState.REJECTED) and not again:
            raise EpisodeError(
                "the source was imported already: `adaptd source import DIR --again` replaces it, and says before what that "
                "means; to extend it, give the old folder and the new one"
            )
        weights = self.project.weights
        if weights is not None and not weights.is_file():
            raise WeightsUnavailable(f"there is no weights file {weights}: check --weights or model.weights")
        return promoted

    def _check_successor(self, promoted: Version, incoming: Incoming) -> None:
        """Clients know the classes and the size of images, and all versions stand in one repository: these stay."""
        with self.store.reading() as tx:
            size = tx.episodes.get(promoted.episode_id).config["model"]["image_size"]
        wanted = self.project.settings.model
        classes = wanted.classes or tuple(sorted({file.label or "" for file in incoming.listing.train}))
        if (classes, wanted.image_size) != (promoted.classes, size):
            raise ConfigError(
                f"a new source needs the classes {', '.join(promoted.classes)} and {size} px, which clients know, not "
                f"{', '.join(classes)} and {wanted.image_size} px: make another project for other ones"
            )

    def _check_model(self) -> tuple[str, ...]:
        """The classes of the promoted model, which must still be the one that the settings describe."""
        with self.store.reading() as tx:
            newest, version = tx.versions.find_latest(), tx.versions.find_latest(VersionState.PROMOTED)
            if newest is None:
                raise NothingToLearn("there is no source model yet: run `adaptd source import DIR` first")
            if version is None:
                raise NothingToLearn(
                    f"no version is promoted to adapt from, version {newest.version} was {newest.state}: "
                    f"`adaptd versions` tells why, and `adaptd promote {newest.version} --force --why REASON` takes it as it is"
                )
            built = tx.episodes.get(version.episode_id).config["model"]
        wanted = self.project.settings.model.model_dump(mode="json")
        for key in MODEL_KEYS if wanted["classes"] else MODEL_KEYS[1:]:
            if wanted[key] != built[key]:
                raise ConfigError(
                    f"model.{key} is {wanted[key]} in the settings, but the model was made with {built[key]}: "
                    "set it back, or make another project"
                )
        return version.classes

    @contextmanager
    def _list_and_decode(self, list_files: Callable[[], Incoming]) -> Iterator[tuple[Incoming, Draft]]:
        """The files and their images, decoded again if the files have changed meanwhile.

        A program may go on writing into a drop that was renamed under it. What it writes while we look for the last time, and
        afterwards, is found by the fingerprint of what we saw.
        """
        for last in (False,) * LOOKS + (True,):
            incoming = list_files()
            with self._decode(incoming) as draft:
                if last or list_files() == incoming:
                    yield incoming, draft
                    return

    def _decode(self, incoming: Incoming) -> AbstractContextManager[Draft]:
        intake, size = self.project.settings.intake, self.project.settings.model.image_size
        limits = Limits(intake.max_file_bytes, intake.max_pixels)
        # Of two files with the same bytes the first is kept: a test image must not be trained on.
        files = (*incoming.listing.test, *incoming.listing.train)
        return decode_files(files, self._layout.caches, Preprocessing(size), limits, self.progress)

    def _read_known(self, name: str) -> Known:
        """What the domain has; nothing where it is new."""
        with self.store.reading() as tx:
            domain = tx.domains.find(name)
            if domain is None:
                return Known()
            number = tx.episodes.last_delivery(domain.id) + 1
            hashes = frozenset(image.sha256 for image in tx.images.list_for(domain.id) if image.delivery != number)
            return Known(number, hashes, tx.quarantine.list_all(domain.id))

    def _sync(self, delivery: Delivery) -> None:
        """Bring the files of drops to the disk: who put them into the inbox may have left them in memory."""
        folders = [self._layout.state / drop.path for drop in delivery.incoming.drops or ()]
        mark_unsynced(self.store, delivery)
        sync_trees(folders)

    def _seal(self, draft: Draft, delivery: Delivery, domain: Domain, ids: dict[str, int]) -> None:
        """Write the cache of each split."""
        for split, images in delivery.parts:
            target = self._layout.cache(domain.id, delivery.number, split)
            # No episode counts on this delivery: whatever lies here is left over.
            remove(target)
            if images:
                draft.seal(target, [(image, ids[image.sha256]) for image in images], delivery.labels_of(images))
