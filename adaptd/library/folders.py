"""What is in a folder of images, and how labelled images are split. Looks at names only; opens no file.

Every file is listed, whatever its suffix: decoding decides what is an image, and what is none goes to quarantine
instead of being passed over. Links are listed but never followed. Left out are temporary names, clutter and `_READY`.
"""

import errno
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from adaptd.beneath import REPLACED, entered, opened, walk
from adaptd.errors import FolderUnusable
from adaptd.intake.names import is_clutter, is_passed_over, is_temporary
from adaptd.text import printable

TEST_FOLDER = "_test"
_OF_THE_FOLDER = REPLACED | {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EIO, errno.ESTALE}
"""What is wrong with one folder. Any other errno is the machine's trouble."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file in a drop. `name` is its path inside the drop, with slashes; `label` its class folder's name.

    `root` is the folder that was listed: below it nothing is reached through a link. Where it is None, that is the file's folder.
    """

    path: Path
    name: str
    label: str | None = None
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder's files, each list sorted by name.

    `strays` stand where a class is needed but outside of any class folder; `left_behind` are files and
    folders with temporary names.
    """

    train: tuple[Found, ...]
    test: tuple[Found, ...] = ()
    strays: tuple[Found, ...] = ()
    left_behind: tuple[Found, ...] = ()


def list_source(folder: Path) -> Listing:
    """A labelled source: `<class>/**`, optionally with its own `_test/<class>/**`."""
    folder = _require_folder(folder)
    train, strays = _list_classes(folder, folder, skip=TEST_FOLDER)
    _require_classes(folder, train)
    _refuse_empty(folder, train)
    test, test_strays = _list_test(folder)
    return Listing(train, test, strays + test_strays)


def list_domain(folder: Path) -> Listing:
    """An unlabelled domain: any tree of images, optionally with `_test/<class>/**`."""
    folder = _require_folder(folder)
    train = _list_unlabelled(folder)
    if not train:
        raise FolderUnusable(f"{folder} holds no files; put the domain's images there")
    test, strays = _list_test(folder)
    return Listing(train, test, strays)


def list_drop(folder: Path) -> Listing:
    """What came through the inbox: as a domain, but nothing has to be there, and temporary names are told too."""
    with blaming(folder):
        train = _list_unlabelled(folder)
        test, strays = _list_test(folder)
        return Listing(train, test, strays, _list_left_behind(folder))


@contextmanager
def blaming(folder: Path) -> Iterator[None]:
    """What is wrong with one folder is FolderUnusable, and no trouble of the machine."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_FOLDER:
            raise
        raise FolderUnusable(f"{folder} cannot be read: {error.strerror}; make all of it readable for adaptd") from error


def list_files(folder: Path) -> tuple[Path, ...]:
    """Every file below a folder, sorted, whatever it is for. Folders that are links, or cannot be read, stand for themselves."""
    found: list[Path] = []
    for here, folders, files in os.walk(folder, onerror=lambda problem: found.append(Path(problem.filename))):
        folders[:] = [name for name in folders if not is_passed_over(name)]
        links = [name for name in folders if Path(here, name).is_symlink()]
        found.extend(Path(here, name) for name in (*files, *links) if not is_passed_over(name))
    return tuple(sorted(found))


def list_test_set(folder: Path) -> Listing:
    """Labelled test images: `<class>/**`."""
    folder = _require_folder(folder)
    test, strays = _list_classes(folder, folder)
    if not test:
        raise FolderUnusable(f"{folder} holds no class folders with images; it needs <class>/<image>")
    return Listing((), test, strays)


Item = TypeVar("Item")


def split_by_class(
    items: Sequence[Item], label_of: Callable[[Item], str], test_fraction: float, seed: int
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Split into train and test, class by class, each part in the order given.

    A class keeps at least one image for training and, from two images on, one for testing. The draw of a class depends
    on the seed, its name and its number of images alone: another class more changes nothing in it.
    """
    positions: dict[str, list[int]] = defaultdict(list)
    for position, item in enumerate(items):
        positions[label_of(item)].append(position)
    chosen: set[int] = set()
    for label, of_class in positions.items():
        count = min(max(1, round(len(of_class) * test_fraction)), len(of_class) - 1)
        # No secret is drawn here; a text seed gives the same draw on every machine.
        chosen.update(random.Random(f"{seed}/{label}").sample(of_class, count))  # noqa: S311
    train = tuple(item for position, item in enumerate(items) if position not in chosen)
    return train, tuple(items[position] for position in sorted(chosen))


def _list_unlabelled(folder: Path) -> tuple[Found, ...]:
    return tuple(Found(path, name, root=folder) for path, name in _walk(folder, folder, skip=TEST_FOLDER))


def _list_test(folder: Path) -> tuple[tuple[Found, ...], tuple[Found, ...]]:
    test = folder / TEST_FOLDER
    if not test.is_dir() or test.is_symlink():
        return (), ()
    return _list_classes(test, folder)


def _list_left_behind(root: Path) -> tuple[Found, ...]:
    """Files and folders with temporary names; what is inside such a folder goes with it."""
    found = []
    with opened(root) as top:
        for inside, entry in walk(top, is_clutter):
            *parents, name = inside.rstrip("/").split("/")
            if entry is not None and is_temporary(name) and not any(map(is_passed_over, parents)):
                found.append(Found(root / inside, printable(Path(inside)), root=root))
    return tuple(sorted(found, key=lambda file: os.fsencode(file.path)))


def _list_classes(folder: Path, root: Path, skip: str = "") -> tuple[tuple[Found, ...], tuple[Found, ...]]:
    """Files in class folders, and files beside them."""
    labelled, strays = [], []
    depth = len(folder.relative_to(root).parts)
    for path, name in _walk(folder, root, skip):
        parts = name.split("/")[depth:]
        if len(parts) > 1:
            labelled.append(Found(path, name, parts[0], root))
        else:
            strays.append(Found(path, name, root=root))
    return tuple(labelled), tuple(strays)


def _walk(folder: Path, root: Path, skip: str = "") -> list[tuple[Path, str]]:
    """Everything below that is not a folder, with its path inside `root`, in the order of the names' bytes."""
    prefix = folder.relative_to(root)
    with opened(root) as top, entered(top, str(prefix)) as place:
        inside = [
            path
            for path, entry in walk(place, is_passed_over)
            if entry is not None and not entry.is_dir(follow_symlinks=False) and path.partition("/")[0] != skip
        ]
    return [(folder / path, printable(prefix / path)) for path in sorted(inside, key=os.fsencode)]


def _require_folder(folder: Path) -> Path:
    """A folder of the user's; where its name is a link, what that leads to."""
    if not folder.exists():
        raise FolderUnusable(f"{folder} does not exist; check the path")
    if not folder.is_dir():
        raise FolderUnusable(f"{folder} is not a folder; give the folder that holds the images")
    return folder.resolve() if folder.is_symlink() else folder


def _require_classes(folder: Path, labelled: Sequence[Found]) -> None:
    classes = sorted({file.label for file in labelled if file.label is not None})
    if not classes:
        raise FolderUnusable(f"{folder} has no class folders with images; it needs <class>/<image>, a folder for each class")
    if len(classes) == 1:
        raise FolderUnusable(f"{folder} has only one class, {classes[0]!r}; a classifier needs at least two class folders")


def _refuse_empty(folder: Path, labelled: Sequence[Found]) -> None:
    """A class folder without files would quietly make a model of fewer classes."""
    full = {file.label for file in labelled}
    for child in sorted(folder.iterdir()):
        name = printable(child.relative_to(folder))
        if child.is_dir() and not child.is_symlink() and name not in {*full, TEST_FOLDER} and not is_passed_over(child.name):
            raise FolderUnusable(f"{child} is a class folder without images; put some there, or remove it")
