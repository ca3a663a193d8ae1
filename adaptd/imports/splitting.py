"""Which decoded images are for training, for testing, held out; and what classes a source has. Reads and writes nothing."""

import hashlib
from collections.abc import Sequence

from adaptd.errors import ConfigError, FolderUnusable
from adaptd.imports.incoming import Incoming
from adaptd.library.draft import Decoded, Draft
from adaptd.library.folders import Listing, split_by_class
from adaptd.project.settings import Settings


def split_by_folder(draft: Draft, listing: Listing) -> tuple[Sequence[Decoded], Sequence[Decoded]]:
    """Training and test images, as the folder tells them apart."""
    tests = set(listing.test)
    train = [image for image in draft.images if image.file not in tests]
    return train, [image for image in draft.images if image.file in tests]


def hold_out(images: Sequence[Decoded], share: float, seed: int) -> tuple[Sequence[Decoded], Sequence[Decoded]]:
    """Images to learn from, and a share of them that estimates are made on: by content, so that it is always the same one."""

    def draw(image: Decoded) -> bytes:
        return hashlib.sha256(f"{seed} {image.sha256}".encode()).digest()

    held = {image.sha256 for image in sorted(images, key=draw)[: round(share * len(images))]}
    return [i for i in images if i.sha256 not in held], [i for i in images if i.sha256 in held]


def split_source(
    incoming: Incoming, draft: Draft, settings: Settings
) -> tuple[Sequence[Decoded], Sequence[Decoded], tuple[str, ...]]:
    """Training images, test images and classes of a source; a test set is split off unless it brings one."""
    if incoming.listing.test:
        train, test = split_by_folder(draft, incoming.listing)
    else:
        train, test = split_by_class(draft.images, label_of, settings.source.test_fraction, settings.training.seed)
    classes = _check_classes(incoming, draft, train, settings.model.classes)
    if len({label_of(image) for image in train}) < 2 or not test:
        raise FolderUnusable(
            f"{incoming.where} needs usable training images of two classes and a test image, "
            f"not {tell_counts(draft, train, test)}"
        )
    return train, test, classes


def label_of(image: Decoded) -> str:
    """The class of an image that has one."""
    assert image.file.label is not None
    return image.file.label


def tell_counts(draft: Draft, train: Sequence[Decoded], test: Sequence[Decoded]) -> str:
    """What became of the files, for an error."""
    tested = f" and {len(test)} test" if test else ""
    counts = f"{len(train)} training{tested} images, {len(draft.duplicates)} duplicates"
    if not draft.rejected:
        return counts
    first = draft.rejected[0]
    return f"{counts}, {len(draft.rejected)} rejected (the first: {first.file.name!r}, {first.reason}: {first.detail})"


def _check_classes(incoming: Incoming, draft: Draft, train: Sequence[Decoded], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The classes in output order: those of the settings, else the folder's, each of which needs a training image."""
    named = {file.label for file in (*incoming.listing.train, *incoming.listing.test) if file.label is not None}
    if not wanted:
        barren = sorted(named - {label_of(image) for image in train})
        if barren:
            raise FolderUnusable(
                f"{incoming.where}: class {barren[0]!r} has no usable training image, add some or remove its folder; "
                f"in all there are {tell_counts(draft, train, ())}"
            )
        return tuple(sorted(named))
    if named - set(wanted):
        other = min(named - set(wanted))
        raise ConfigError(f"{incoming.where} has a class {other!r} that model.classes does not list: {list(wanted)}")
    return wanted
