"""What a person labels with: a CSV to fill in, and contact sheets with numbers and names. Chooses nothing."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image as Picture
from PIL import ImageDraw

from adaptd.files import replace_file
from adaptd.labels.choosing import Gallery
from adaptd.records import Image
from adaptd.text import escape_hidden

COLUMNS, ROWS = 5, 5
SIDE, CAPTION, GAP = 160, 32, 8
"""Pixels of a picture, of the two lines below it, and between them."""

FindPng = Callable[[Image], bytes | None]


def name_images(gallery: Gallery, images: Sequence[Image]) -> list[str]:
    """Each as it was dropped; by its SHA-256 where two images of the domain have one name."""
    counts = Counter(image.name for image in gallery.images)
    return [image.name if counts[image.name] == 1 else image.sha256 for image in images]


def write_list(path: Path, gallery: Gallery, images: Sequence[Image]) -> None:
    """A CSV with a row for each image; what is labelled already is filled in."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["image", "label"])
    for image, name in zip(images, name_images(gallery, images), strict=True):
        known = gallery.labels.get(image.id)
        writer.writerow([name, known.label if known else ""])
    replace_file(path, text.getvalue().encode("utf-8"))


def write_sheets(folder: Path, stem: str, gallery: Gallery, images: Sequence[Image], find_png: FindPng) -> list[Path]:
    """Contact sheets of the images in the order of the list; their numbers are its rows."""
    names, size = name_images(gallery, images), COLUMNS * ROWS
    paths: list[Path] = []
    for first in range(0, len(images), size):
        path = folder / f"{stem}-{first + 1:04}.png"
        picture = _draw([(first + i + 1, names[first + i], find_png(image)) for i, image in enumerate(images[first:][:size])])
        file = io.BytesIO()
        picture.save(file, "PNG")
        replace_file(path, file.getvalue())
        paths.append(path)
    return paths


def _draw(items: Sequence[tuple[int, str, bytes | None]]) -> Picture.Image:
    rows = -(-len(items) // COLUMNS)
    sheet = Picture.new("RGB", (COLUMNS * (SIDE + GAP) + GAP, rows * (SIDE + CAPTION + GAP) + GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for place, (number, name, png) in enumerate(items):
        left, top = GAP + place % COLUMNS * (SIDE + GAP), GAP + place // COLUMNS * (SIDE + CAPTION + GAP)
        if png is not None:
            sheet.paste(_enlarge(Picture.open(io.BytesIO(png)).convert("RGB")), (left, top))
        pen.text((left, top + SIDE + 2), f"{number}", fill="black")
        pen.text((left, top + SIDE + 16), _shorten(escape_hidden(name)), fill="black")
    return sheet


def _enlarge(picture: Picture.Image) -> Picture.Image:
    """To the size of its place, as it is."""
    scale = SIDE / max(picture.size)
    width, height = (max(1, round(scale * side)) for side in picture.size)
    return picture.resize((width, height), Picture.Resampling.NEAREST if scale > 1 else Picture.Resampling.LANCZOS)


def _shorten(name: str, most: int = 25) -> str:
    """The end of a name, which tells files apart; in letters that every font has."""
    plain = name.encode("ascii", "replace").decode()
    return plain if len(plain) <= most else f"...{plain[3 - most :]}"
