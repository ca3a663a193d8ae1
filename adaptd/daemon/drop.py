"""A decoded folder on its way into the store: what is for training, what for testing, what is set aside. Writes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adaptd.errors import ConfigError, FolderUnusable
from adaptd.library.draft import Decoded, Draft
from adaptd.library.folders import Found, Listing, printable
from adaptd.records import NewImage, Split


@dataclass(frozen=True, slots=True)
class Drop:
    """The folder of one domain. `known` counts images that an earlier batch has."""

    name: str
    folder: Path
    method: str
    draft: Draft
    strays: tuple[Found, ...]
    train: Sequence[Decoded]
    test: Sequence[Decoded]
    classes: tuple[str, ...]
    known: int = 0

    @property
    def parts(self) -> tuple[tuple[Split, Sequence[Decoded]], ...]:
        """Both splits."""
        return (Split.TRAIN, self.train), (Split.TEST, self.test)

    @property
    def set_aside(self) -> int:
        """How many files cannot be used."""
        return len(self.draft.rejected) + len(self.strays)

    def without(self, hashes: set[str]) -> "Drop":
        """The same without images that the domain has already."""
        train, test = ([image for image in images if image.sha256 not in hashes] for _, images in self.parts)
        return replace(self, train=train, test=test, known=len(self.train) + len(self.test) - len(train) - len(test))

    def refused(self, known: set[tuple[str | None, str]]) -> list[tuple[str, str, Found]]:
        """Reason, detail and file of what cannot be used, but for what an earlier import said already."""
        every = [(item.reason, item.detail, item.file) for item in self.draft.rejected]
        every += [("no-class", "stands outside of any class folder", file) for file in self.strays]
        return [entry for entry in every if (printable(entry[2].path), entry[0]) not in known]


def apart(draft: Draft, listing: Listing) -> tuple[list[Decoded], list[Decoded]]:
    """Training and test images, as the folder tells them apart."""
    tests = set(listing.test)
    train = [image for image in draft.images if image.file not in tests]
    return train, [image for image in draft.images if image.file in tests]


def check_classes(
    listing: Listing, draft: Draft, train: Sequence[Decoded], wanted: tuple[str, ...], folder: Path
) -> tuple[str, ...]:
    """The classes in output order: those of the settings, else the folder's, each of which needs a training image."""
    named = {file.label for file in (*listing.train, *listing.test) if file.label is not None}
    if not wanted:
        barren = sorted(named - {label_of(image) for image in train})
        if barren:
            raise FolderUnusable(
                f"{folder}: class {barren[0]!r} has no usable training image, add some or remove its folder; "
                f"in all there are {counted(draft, train, ())}"
            )
        return tuple(sorted(named))
    if named - set(wanted):
        raise ConfigError(f"{folder} has a class {min(named - set(wanted))!r} that model.classes does not list: {list(wanted)}")
    return wanted


def label_of(image: Decoded) -> str:
    """The class of an image that has one."""
    assert image.file.label is not None
    return image.file.label


def counted(draft: Draft, train: Sequence[Decoded], test: Sequence[Decoded]) -> str:
    """What became of a folder's files, for an error."""
    tested = f" and {len(test)} test" if test else ""
    counts = f"{len(train)} training{tested} images, {len(draft.duplicates)} duplicates"
    if not draft.rejected:
        return counts
    first = draft.rejected[0]
    return f"{counts}, {len(draft.rejected)} rejected (the first: {first.file.name!r}, {first.reason}: {first.detail})"


def new_image(image: Decoded, split: Split, batch: int) -> NewImage:
    """As the store takes it."""
    return NewImage(image.sha256, image.size_bytes, image.file.name, split, image.file.label, batch, image.width, image.height)
