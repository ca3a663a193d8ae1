"""Reading the model repository: which versions stand there, and one version's bytes, proven against its card.

Needs the folder only, never the database. Sessions are made in `session`; which version is served is said in `catalogue`.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adaptd.errors import VersionUnusable
from adaptd.library.preprocessing import Preprocessing

MODEL_FILE = "model.onnx"
CARD_FILE = "card.json"
CARD_SCHEMA = "adaptd.card/1"
MAX_CARD_BYTES = 16_000_000

_VERSION = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)

Fingerprint = tuple[tuple[int, int, int] | None, ...]
"""Inode, size and time of change of a version's files: when it differs, the version is worth another look."""


@dataclass(frozen=True, slots=True)
class Published:
    """A version as it stands in the repository: a model whose hash is the card's."""

    name: str
    version: int
    model: bytes
    classes: tuple[str, ...]
    preprocessing: Preprocessing


def parse_version(text: str) -> int | None:
    """The number of a version; None where the text is none, such as `3.tmp` or `03`."""
    return int(text) if _VERSION.fullmatch(text) else None


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


def read_version(folder: Path, version: int) -> Published:
    """Read a version and prove it. The bytes that were hashed are those returned, so nothing can change in between.

    Raises:
        VersionUnusable: something about it is wrong.
    """
    place = folder / str(version)
    try:
        card = _read_card(place / CARD_FILE)
        model = (place / MODEL_FILE).read_bytes()
    except OSError as problem:
        raise VersionUnusable(f"{problem.filename}: {problem.strerror}") from problem
    found = hashlib.sha256(model).hexdigest()
    if found != card.get("model_sha256"):
        raise VersionUnusable(
            f"{place / MODEL_FILE} is damaged: its SHA-256 is {found}, the card says {card.get('model_sha256')}"
        )
    owner = card.get("model"), card.get("version")
    if owner != (folder.name, version):
        raise VersionUnusable(f"{place / CARD_FILE} is the card of {owner[0]} {owner[1]}, not of {folder.name} {version}")
    return Published(folder.name, version, model, _classes(card, place), _preprocessing(card, place))


def _read_card(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        text = file.read(MAX_CARD_BYTES + 1)
    try:
        card = json.loads(text) if len(text) <= MAX_CARD_BYTES else None
    except (ValueError, RecursionError):
        card = None
    if not isinstance(card, dict) or card.get("schema") != CARD_SCHEMA:
        raise VersionUnusable(f"{path} is no {CARD_SCHEMA}")
    return card


def _classes(card: dict[str, Any], place: Path) -> tuple[str, ...]:
    classes = card.get("classes")
    if not isinstance(classes, list) or not classes or not all(isinstance(name, str) for name in classes):
        raise VersionUnusable(f"{place / CARD_FILE}: classes must be a list of names")
    return tuple(classes)


def _preprocessing(card: dict[str, Any], place: Path) -> Preprocessing:
    try:
        wanted = card["preprocessing"]
        return Preprocessing(int(wanted["image_size"]), wanted["resize"])
    except (KeyError, TypeError, ValueError) as problem:
        raise VersionUnusable(f"{place / CARD_FILE}: its preprocessing is unknown to this adaptd: {problem}") from problem
