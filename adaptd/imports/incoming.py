"""What is about to be imported: the files of a folder, or of a domain's waiting drops. Looks at names and places only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from adaptd.errors import FolderUnusable
from adaptd.intake.tree import Stamp, read_files
from adaptd.library.folders import Found, Listing, blaming, list_domain, list_drop, list_source, list_test_set
from adaptd.records import SOURCE, Domain, DropRecord, Quarantined, Reason
from adaptd.text import printable

Refused = tuple[Reason, str, Found]
"""Why a file cannot be used, the fact for a person, and the file."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """The files of one import.

    Args:
        name: the domain's.
        where: where they come from, for people.
        listing: what is to be decoded.
        refused: what cannot be used because of where it stands.
        drops: the drops they came with; None for a folder of the user's.
        origins: which of the drops a file came with, by path.
        stamps: of all files of each drop, by their paths inside it.
        listed_at: no later than anything of this was looked at.
    """

    name: str
    where: str
    listing: Listing
    refused: tuple[Refused, ...]
    drops: tuple[DropRecord, ...] | None = None
    origins: Mapping[Path, DropRecord] = field(default_factory=dict)
    stamps: Mapping[int, Mapping[str, Stamp]] = field(default_factory=dict)
    listed_at: datetime | None = field(default=None, compare=False)

    @property
    def drop_ids(self) -> list[int]:
        """Of the drops."""
        return [drop.id for drop in self.drops or ()]

    def find_class_folders(self, classes: Sequence[str]) -> tuple[str, ...]:
        """Folders that are named like classes, where all are, and there are several: somebody may have labelled the images."""
        folders = {file.name.partition("/")[0] for file in self.listing.train if "/" in file.name}
        return tuple(sorted(folders)) if len(folders) > 1 and folders <= set(classes) else ()

    def find_drop_to_leave(self, file: Found) -> int | None:
        """The drop that a file is to be moved out of if it cannot be used; None where it stays where it is.

        A drop with an absolute path is read in place.
        """
        drop = self.origins.get(file.path)
        return None if drop is None or Path(drop.path).is_absolute() else drop.id

    def find_stamp(self, file: Found) -> Stamp | None:
        """Of a file of a drop, as it was when it was listed."""
        drop = self.origins.get(file.path)
        paths = self.stamps.get(drop.id, {}) if drop else {}
        inside = str(Path(*file.path.parts[len(file.path.parts) - file.name.count("/") - 1 :]))
        return paths.get(inside)

    def without_known(self, refused: Sequence[Refused], known: Sequence[Quarantined]) -> tuple[Refused, ...]:
        """Of files that cannot be used, those that no earlier import put into quarantine."""
        told = {(item.drop_id, item.name if item.drop_id else item.path) for item in known}
        return tuple(entry for entry in refused if self._identity(entry[2]) not in told)

    def _identity(self, file: Found) -> tuple[int | None, str]:
        drop_id = self.find_drop_to_leave(file)
        return (drop_id, file.name) if drop_id else (None, printable(file.path))


def list_source_folders(folders: Sequence[Path], name: str = SOURCE) -> Incoming:
    """Labelled folders, one sub-folder a class, perhaps with `_test/`; several make one source."""
    listings = [list_source(folder) for folder in folders]
    train, test, strays = (
        tuple(file for listing in listings for file in getattr(listing, part)) for part in ("train", "test", "strays")
    )
    return Incoming(name, ", ".join(map(str, folders)), Listing(train, test, strays), _outside_of_classes(strays))


def list_domain_folder(folder: Path, name: str, test_folder: Path | None, classes: tuple[str, ...]) -> Incoming:
    """An unlabelled folder, with a labelled test set in `_test/` or beside it; FolderUnusable where that has another class."""
    listing = list_domain(folder)
    if test_folder is not None:
        extra = list_test_set(test_folder)
        listing = Listing(listing.train, listing.test + extra.test, listing.strays + extra.strays)
    unknown = sorted({file.label for file in listing.test if file.label is not None} - set(classes))
    if unknown:
        raise FolderUnusable(
            f"the test images of {folder} have a class {unknown[0]!r} that the source does not know: "
            f"rename or remove its folder; known: {', '.join(classes)}"
        )
    return Incoming(name, str(folder), listing, _outside_of_classes(listing.strays))


def list_drops(domain: Domain, drops: tuple[DropRecord, ...], state: Path, classes: tuple[str, ...]) -> Incoming:
    """Several drops as one. Test images of a class that the model does not have cannot be used, nor can temporary files."""
    train: list[Found] = []
    test: list[Found] = []
    refused: list[Refused] = []
    origins: dict[Path, DropRecord] = {}
    listed_at = datetime.now(UTC)
    # Before the names: what changes while these are listed must not pass for seen.
    stamps = {}
    for drop in drops:
        with blaming(state / drop.path):
            stamps[drop.id] = read_files(state / drop.path)
    for drop in drops:
        found = list_drop(state / drop.path)
        train += found.train
        test += [file for file in found.test if file.label in classes]
        refused += _outside_of_classes(found.strays)
        refused += [_of_unknown_class(file, classes) for file in found.test if file.label not in classes]
        refused += [(Reason.TEMPORARY, "a temporary name, and nobody wrote to it any more", file) for file in found.left_behind]
        every = (*found.train, *found.test, *found.strays, *found.left_behind)
        origins |= {file.path: drop for file in every}
    listing = Listing(tuple(dict.fromkeys(train)), tuple(dict.fromkeys(test)))
    where, every_refused = f"the inbox's {domain.name}", tuple(dict.fromkeys(refused))
    return Incoming(domain.name, where, listing, every_refused, drops, origins, stamps, listed_at)


def _of_unknown_class(file: Found, classes: tuple[str, ...]) -> Refused:
    return Reason.UNKNOWN_CLASS, f"the model has no class {file.label!r}; known: {', '.join(classes)}", file


def _outside_of_classes(strays: Sequence[Found]) -> tuple[Refused, ...]:
    """Files that stand where a class is needed."""
    return tuple((Reason.NO_CLASS, "stands outside of any class folder", file) for file in strays)
