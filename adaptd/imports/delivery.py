"""What decoded files bring to a domain: which are new, which are known, which cannot be used, and whether that is enough.

Computed once, from the files and from what the domain has already. Reads and writes nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from adaptd.imports.claimed import fingerprint_taken
from adaptd.imports.incoming import Incoming, Refused
from adaptd.imports.splitting import hold_out, label_of, split_by_folder, split_source, tell_counts
from adaptd.library.draft import Decoded, Draft
from adaptd.project.settings import ENOUGH_TO_TELL, Settings
from adaptd.records import SOURCES, NewImage, Quarantined, Reason, Split


@dataclass(frozen=True, slots=True)
class Known:
    """What a domain has already: the number of its next delivery, its images' hashes, its quarantined files.

    Images of the next delivery's number are not among them: no model learned from those.
    """

    number: int = 1
    hashes: frozenset[str] = frozenset()
    quarantined: tuple[Quarantined, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery that may be committed.

    Args:
        incoming: the files it is of.
        number: 1, 2, 3 … in the domain.
        classes: of the model, in output order.
        train: new images to learn from.
        test: new images to measure on.
        held_out: new images without labels that estimates are made on, and nothing is learned from.
        quarantined: files that cannot be used and that no earlier import told of.
        unusable: how many files cannot be used.
        duplicates: how many files are there twice.
        known: how many images an earlier delivery has.
        counts: of each drop, how many images are new, and how many there twice or known.
        taken: of each drop, a fingerprint of the files that stay in it.
        shortage: why these are too few images to learn from; None where they are enough.
    """

    incoming: Incoming
    number: int
    classes: tuple[str, ...]
    train: tuple[Decoded, ...]
    test: tuple[Decoded, ...]
    held_out: tuple[Decoded, ...]
    quarantined: tuple[Refused, ...]
    unusable: int
    duplicates: int
    known: int
    counts: dict[int, tuple[int, int]]
    taken: dict[int, str]
    shortage: str | None

    @property
    def parts(self) -> tuple[tuple[Split, tuple[Decoded, ...]], ...]:
        """All splits."""
        return (Split.TRAIN, self.train), (Split.TEST, self.test), (Split.HELD_OUT, self.held_out)

    @property
    def images(self) -> tuple[Decoded, ...]:
        """All new ones, those to learn from first."""
        return (*self.train, *self.test, *self.held_out)

    @property
    def is_known(self) -> bool:
        """Whether all of it was there before."""
        return self.known > 0 and not self.images

    def labels_of(self, images: Sequence[Decoded]) -> list[int] | None:
        """Their classes as indices; None where they have none."""
        if not images or images[0].file.label is None:
            return None
        return [self.classes.index(label_of(image)) for image in images]

    def to_store(self, ids: dict[str, int]) -> list[NewImage]:
        """The new images with their ids, as the store takes them."""
        return [
            NewImage(i.sha256, i.size_bytes, i.file.name, split, i.file.label, self.number, i.width, i.height, ids[i.sha256])
            for split, images in self.parts
            for i in images
        ]


def build_delivery(incoming: Incoming, draft: Draft, known: Known, classes: tuple[str, ...], settings: Settings) -> Delivery:
    """Tell new images from known ones, and both from what cannot be used.

    Args:
        incoming: the files.
        draft: what decoding them gave.
        known: what the domain has.
        classes: of the model; none where this is the source it is to be made of.
        settings: how the source is split, and how many images are enough.

    Raises:
        FolderUnusable: no model can be made of this source.
        ConfigError: the source has a class that the settings do not list.
    """
    if incoming.name in SOURCES:
        every_train, every_test, classes = split_source(incoming, draft, settings)
    else:
        every_train, every_test = split_by_folder(draft, incoming.listing)
    train, test = (tuple(i for i in images if i.sha256 not in known.hashes) for images in (every_train, every_test))
    refused = (*((Reason(item.reason), item.detail, item.file) for item in draft.rejected), *incoming.refused)
    before = len(every_train) + len(every_test) - len(train) - len(test)
    shortage = _find_shortage(incoming, draft, train, test, before, settings.intake.minimum_images)
    if shortage is None and known.number == 1 and incoming.drops and settings.intake.known_drops != "adapt":
        shortage = _find_doubt(incoming, draft, train, test)
    share = 0.0 if incoming.name in SOURCES or incoming.listing.test else settings.evaluation.held_out
    learned, held_out = hold_out(train, share, settings.training.seed)
    return Delivery(
        incoming=incoming,
        number=known.number,
        classes=classes,
        train=tuple(learned),
        test=test,
        held_out=tuple(held_out),
        quarantined=incoming.without_known(refused, known.quarantined),
        unusable=len(refused),
        duplicates=len(draft.duplicates),
        known=before,
        counts=_count_by_drop(incoming, draft, (*train, *test)),
        taken=_fingerprint_by_drop(incoming, refused),
        shortage=shortage,
    )


def _find_shortage(
    incoming: Incoming, draft: Draft, train: Sequence[Decoded], test: Sequence[Decoded], known: int, least: int
) -> str | None:
    """Why the new images are too few; of a source only the classes count."""
    if len(train) >= least or incoming.name in SOURCES:
        return None
    if known and not train:
        return f"every image of {incoming.where} was in domain {incoming.name} before: there is nothing new to learn"
    before = f", {known} were in domain {incoming.name} before" if known else ""
    return (
        f"{incoming.where} has too few images to learn from, intake.minimum_images is {least}: "
        f"{tell_counts(draft, train, test)}{before}"
    )


def _find_doubt(incoming: Incoming, draft: Draft, train: Sequence[Decoded], test: Sequence[Decoded]) -> str | None:
    """Why the images of a domain that may not be new are too few to find out."""
    if len(train) >= ENOUGH_TO_TELL:
        return None
    return (
        f"{incoming.where} has too few images to tell whether it is new, intake.known_drops needs {ENOUGH_TO_TELL}: "
        f"{tell_counts(draft, train, test)}"
    )


def _count_by_drop(incoming: Incoming, draft: Draft, new: Sequence[Decoded]) -> dict[int, tuple[int, int]]:
    """Of each drop: how many of its images are new, and how many are there twice or were known before."""
    if incoming.drops is None:
        return {}
    accepted = Counter(incoming.origins[image.file.path].id for image in new)
    files = [*(image.file for image in draft.images), *(twice.file for twice in draft.duplicates)]
    usable = Counter(incoming.origins[file.path].id for file in files)
    return {drop_id: (accepted[drop_id], usable[drop_id] - accepted[drop_id]) for drop_id in incoming.drop_ids}


def _fingerprint_by_drop(incoming: Incoming, refused: Sequence[Refused]) -> dict[int, str]:
    """Of each drop what the import saw in it, without what goes to quarantine."""
    leaving: dict[int, set[str]] = {drop_id: set() for drop_id in incoming.drop_ids}
    for _, _, file in refused:
        if (drop_id := incoming.find_drop_to_leave(file)) is not None:
            leaving[drop_id].add(file.name)
    return {drop_id: fingerprint_taken(incoming.stamps.get(drop_id, {}), names) for drop_id, names in leaving.items()}
