"""A decoded folder on its way into the store: what is for training, what for testing, what is set aside. Writes nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from adaptd.errors import ConfigError, FolderUnusable
from adaptd.library.draft import Decoded, Draft
from adaptd.library.folders import Found, Listing, list_drop
from adaptd.records import DropRecord, NewImage, Quarantined, Reason, Split
from adaptd.text import printable

Refused = tuple[Reason, str, Found]
"""Why a file was refused, the fact for a person, and the file."""


@dataclass(frozen=True, slots=True)
class Drop:
    """What is about to become a delivery of a domain.

    Args:
        name: the domain's.
        where: where the images come from, for people.
        method: what the episode will do.
        draft: the decoded images.
        refused: what is not even decoded.
        train: images to learn from.
        test: images to measure on.
        classes: of the model, in output order.
        known: how many images an earlier delivery has.
        origins: which drop of the inbox a file came with, by path.
        ours: the drops that lie in the state folder, so that refused files are moved out of them.
    """

    name: str
    where: str
    method: str
    draft: Draft
    refused: tuple[Refused, ...]
    train: Sequence[Decoded]
    test: Sequence[Decoded]
    classes: tuple[str, ...]
    known: int = 0
    origins: Mapping[Path, int] = field(default_factory=dict)
    ours: frozenset[int] = frozenset()

    @property
    def parts(self) -> tuple[tuple[Split, Sequence[Decoded]], ...]:
        """Both splits."""
        return (Split.TRAIN, self.train), (Split.TEST, self.test)

    @property
    def set_aside(self) -> int:
        """How many files cannot be used."""
        return len(self.draft.rejected) + len(self.refused)

    def without(self, hashes: set[str]) -> "Drop":
        """The same without images that the domain has already."""
        train, test = ([image for image in images if image.sha256 not in hashes] for _, images in self.parts)
        return replace(self, train=train, test=test, known=len(self.train) + len(self.test) - len(train) - len(test))

    def newly_refused(self, known: Sequence[Quarantined]) -> list[Refused]:
        """What cannot be used, but for what an earlier import said already."""
        every = [(Reason(item.reason), item.detail, item.file) for item in self.draft.rejected] + list(self.refused)
        said = {(item.drop_id, item.name if item.drop_id else item.path) for item in known}
        return [entry for entry in every if self._identity(entry[2]) not in said]

    def _identity(self, file: Found) -> tuple[int | None, str]:
        drop_id = self.moved_from(file)
        return (drop_id, file.name) if drop_id else (None, printable(file.path))

    def moved_from(self, file: Found) -> int | None:
        """The drop that a refused file is to be moved out of; None where it stays where it is."""
        drop_id = self.origins.get(file.path)
        return drop_id if drop_id in self.ours else None

    def counts(self) -> dict[int, tuple[int, int]]:
        """Of each drop: how many of its images are accepted, and how many are there twice or were known before."""
        if not self.origins:
            return {}
        accepted = Counter(self.origins[image.file.path] for image in (*self.train, *self.test))
        usable = [image.file for image in self.draft.images] + [twice.file for twice in self.draft.duplicates]
        every = Counter(self.origins[file.path] for file in usable)
        return {drop: (accepted[drop], every[drop] - accepted[drop]) for drop in set(self.origins.values())}


@dataclass(frozen=True, slots=True)
class Gathered:
    """The files of a domain's waiting drops together."""

    listing: Listing
    origins: dict[Path, int]
    ours: frozenset[int]
    refused: tuple[Refused, ...]


def gather(drops: Sequence[DropRecord], state: Path, classes: tuple[str, ...]) -> Gathered:
    """List several drops as one. Test images of a class that the model does not have are refused, and so on."""
    train: list[Found] = []
    test: list[Found] = []
    refused: list[Refused] = []
    origins: dict[Path, int] = {}
    for drop in drops:
        found = list_drop(state / drop.path)
        known = [file for file in found.test if file.label in classes]
        train += found.train
        test += known
        refused += outside_of_classes(found.strays)
        refused += [_unknown(file, classes) for file in found.test if file.label not in classes]
        refused += [(Reason.TEMPORARY, "a temporary name, and nobody wrote to it any more", file) for file in found.left_behind]
        every = (*found.train, *found.test, *found.strays, *found.left_behind)
        origins |= {file.path: drop.id for file in every}
    ours = frozenset(drop.id for drop in drops if not Path(drop.path).is_absolute())
    return Gathered(
        Listing(tuple(dict.fromkeys(train)), tuple(dict.fromkeys(test))), origins, ours, tuple(dict.fromkeys(refused))
    )


def _unknown(file: Found, classes: tuple[str, ...]) -> Refused:
    return Reason.UNKNOWN_CLASS, f"the model has no class {file.label!r}; known are {', '.join(classes)}", file


def outside_of_classes(strays: Sequence[Found]) -> tuple[Refused, ...]:
    """Files that stand where a class is needed."""
    return tuple((Reason.NO_CLASS, "stands outside of any class folder", file) for file in strays)


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


def new_image(image: Decoded, split: Split, delivery: int) -> NewImage:
    """As the store takes it."""
    return NewImage(image.sha256, image.size_bytes, image.file.name, split, image.file.label, delivery, image.width, image.height)
