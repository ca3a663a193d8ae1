"""Reading the model repository: which versions stand there, and one version's bytes, proven against its card.

Needs the folder only, never the database. Sessions are made in `session`; which version is served is said in `catalogue`.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from adaptd.errors import VersionDamaged, VersionUnusable
from adaptd.library.preprocessing import Preprocessing
from adaptd.publishing.card import CARD_FILE, read_card
from adaptd.publishing.triton import MODEL_FILE, is_version

Fingerprint = tuple[tuple[int, int, int] | None, ...]
"""Inode, size and time of change of a version's files: when it differs, the version is worth another look."""


@dataclass(frozen=True, slots=True)
class VersionContent:
    """A version as it stands in the repository: a model whose hash is the card's."""

    name: str
    version: int
    model: bytes
    classes: tuple[str, ...]
    preprocessing: Preprocessing


def parse_version(text: str) -> int | None:
    """The number of a version; None where the text is none, such as `3.tmp` or `03`."""
    return int(text) if is_version(text) else None


def list_versions(folder: Path) -> tuple[int, ...]:
    """The versions in `models/<name>`, smallest first."""
    numbers = (parse_version(path.name) for path in folder.iterdir() if path.is_dir())
    return tuple(sorted(number for number in numbers if number is not None))


def fingerprint(folder: Path, version: int) -> Fingerprint:
    """What a version's files look like from outside; None for a missing one."""
    return tuple(_look(folder / str(version) / name) for name in (MODEL_FILE, CARD_FILE))


def _look(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_version(folder: Path, version: int) -> VersionContent:
    """Read a version and prove it. The bytes that were hashed are those returned, so nothing can change in between.

    Raises:
        VersionUnusable: something about it is wrong.
    """
    place = folder / str(version)
    try:
        card = read_card(place)
        model = (place / MODEL_FILE).read_bytes()
    except VersionDamaged as problem:
        raise VersionUnusable(str(problem)) from problem
    except OSError as problem:
        raise VersionUnusable(f"{problem.filename}: {problem.strerror}") from problem
    found = hashlib.sha256(model).hexdigest()
    if found != card.model_sha256:
        raise VersionUnusable(f"{place / MODEL_FILE} is damaged: its SHA-256 is {found}, the card says {card.model_sha256}")
    if (card.model, card.version) != (folder.name, version):
        wrong = f"{card.model} {card.version}, not of {folder.name} {version}"
        raise VersionUnusable(f"{place / CARD_FILE} is the card of {wrong}")
    return VersionContent(folder.name, version, model, card.classes, card.preprocessing)
