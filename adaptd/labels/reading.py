"""Labels as people write them, a CSV or a folder for each class, matched with a domain's images. All of it holds, or nothing."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from adaptd.errors import LabelsRefused
from adaptd.files import hash_file
from adaptd.labels.choosing import Gallery
from adaptd.records import Image, Purpose, Split
from adaptd.text import printable

SHOWN = 10
"""Problems told one by one."""
MAX_BYTES = 100_000_000
COLUMNS = ("image", "label")


@dataclass(frozen=True, slots=True)
class Row:
    """One label as it was written: where, for which image, which class; the hash of a file that was given itself."""

    where: str
    image: str
    label: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Labels that fit: classes by image id; and how many rows were left open."""

    labels: dict[int, str]
    left_open: int


def read_rows(path: Path) -> tuple[Row, ...]:
    """The rows of a CSV file, or the images in a folder of class folders."""
    rows = tuple(_read_folder(path) if path.is_dir() else _read_csv(path))
    if not rows:
        raise LabelsRefused(f"{path} has no labels: it wants rows of image and label, or folders named after classes")
    return rows


def match_rows(gallery: Gallery, rows: Iterable[Row], *, teach: bool = False, partial: bool = False) -> Answer:
    """The labels of rows that all fit; LabelsRefused with a sentence for each row that does not.

    Args:
        gallery: what may be labelled.
        rows: as they were written.
        teach: they are to teach, and must not be measured on.
        partial: rows without a label are left for later instead of refused.
    """
    matcher = _Matcher(gallery, teach=teach)
    for row in rows:
        matcher.take(row)
    problems = matcher.problems
    if matcher.open and not partial and matcher.labels:
        where = matcher.open[0]
        problems.append(f"{where}: {len(matcher.open)} rows have no label: label them, or take the others with --partial")
    if not matcher.labels and not problems:
        problems.append("no row has a label yet")
    if problems:
        more = (f"and {len(problems) - SHOWN} more",) if len(problems) > SHOWN else ()
        told = (*problems[:SHOWN], *more)
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise LabelsRefused(f"{count} in these labels: nothing was taken; correct them and import again", told)
    return Answer(matcher.labels, len(matcher.open))


def find_images(gallery: Gallery, names: Iterable[str]) -> tuple[Image, ...]:
    """Images by the names that people know them by; LabelsRefused where one is none, or two."""
    matcher = _Matcher(gallery, teach=False)
    found = [(name, matcher.find(Row("", name, ""))) for name in names]
    for name, images in found:
        if len(images) != 1:
            raise LabelsRefused(matcher.tell_unmatched(name, len(images)))
    return tuple(images[0] for _, images in found)


class _Matcher:
    """Rows against images, one after another."""

    def __init__(self, gallery: Gallery, *, teach: bool) -> None:
        self.labels: dict[int, str] = {}
        self.open: list[str] = []
        self.problems: list[str] = []
        self._gallery, self._teach = gallery, teach
        self._seen: dict[int, str] = {}
        self._by_hash = {image.sha256: image for image in gallery.images}
        self._by_name: dict[str, list[Image]] = defaultdict(list)
        for image in gallery.images:
            for name in {image.name, PurePosixPath(image.name).name}:
                self._by_name[name].append(image)

    def take(self, row: Row) -> None:
        """One row."""
        if not row.image:
            return self.problems.append(f"{row.where}: no image is named")
        found = self.find(row)
        if len(found) != 1:
            return self.problems.append(f"{row.where}: {self.tell_unmatched(row.image, len(found))}")
        image = found[0]
        if image.id in self._seen:
            return self.problems.append(f"{row.where}: {row.image} stands there twice, first at {self._seen[image.id]}")
        self._seen[image.id] = row.where
        if not row.label:
            return self.open.append(row.where)
        if problem := self._find_problem(row, image):
            return self.problems.append(f"{row.where}: {problem}")
        self.labels[image.id] = row.label
        return None

    def find(self, row: Row) -> list[Image]:
        """The images that a row may mean."""
        for digest in (row.sha256, row.image):
            if digest in self._by_hash:
                return [self._by_hash[digest]]
        named = self._by_name.get(row.image, [])
        exact = [image for image in named if image.name == row.image]
        return exact or named

    def tell_unmatched(self, image: str, count: int) -> str:
        """Why a name stands for no image, or for several."""
        name = self._gallery.domain.name
        if count:
            return f"{image} may be {count} images of {name}: give its path in the drop, or its SHA-256"
        return f"{name} has no image {image}"

    def _find_problem(self, row: Row, image: Image) -> str | None:
        classes = self._gallery.classes
        if row.label not in classes:
            return f"{row.label} is not a class; there are {', '.join(classes[:SHOWN])}{' …' if len(classes) > SHOWN else ''}"
        known = self._gallery.labels.get(image.id)
        if self._teach and (image.split is Split.HELD_OUT or (known and known.purpose is Purpose.MEASURE)):
            return f"{row.image} is measured on, and must not teach"
        if not self._teach and known and known.purpose is Purpose.TEACH and not self._gallery.held_out:
            return None if self._gallery.has_test else f"{row.image} teaches, and cannot be measured on: give --teach"
        return None


def _read_csv(path: Path) -> Iterator[Row]:
    if not path.is_file():
        raise LabelsRefused(f"there is no file or folder {path}: `adaptd labels template` writes lists to fill in")
    if path.stat().st_size > MAX_BYTES:
        raise LabelsRefused(f"{path} has more than {MAX_BYTES:,} bytes: that is not a list of labels")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise LabelsRefused(f"{path} is not UTF-8 text: save it as CSV in UTF-8") from problem
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if any(header.count(name) != 1 for name in COLUMNS):
            raise LabelsRefused(f"{path} needs a first line with the columns image and label, not {first.strip()[:80]!r}")
        places = [header.index(name) for name in COLUMNS]
        for cells in reader:
            if any(cell.strip() for cell in cells):
                image, label = (cells[place].strip() if place < len(cells) else "" for place in places)
                yield Row(f"line {reader.line_num}", image, label)
    except csv.Error as problem:
        raise LabelsRefused(f"{path} cannot be read as CSV in line {reader.line_num}: {problem}") from problem


def _read_folder(folder: Path) -> Iterator[Row]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if not path.is_file() or path.is_symlink() or any(part.startswith(".") for part in inside.parts):
            continue
        if len(inside.parts) < 2:
            raise LabelsRefused(f"{printable(path)} lies in no class's folder: put it into one")
        name = printable(Path(*inside.parts[1:]))
        yield Row(printable(inside), name, inside.parts[0], hash_file(path))
