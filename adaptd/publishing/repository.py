"""The Triton model repository in `models/`: whole, proven, immutable versions or nothing. Needs neither torch nor onnx.

Who publishes commits the version with its SHA-256 to the store first, then calls `publish`; after a kill in between,
`recover` finishes the work, or leaves a version out that must be exported again. One process at a time may do this.
"""

import contextlib
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptd import files
from adaptd.errors import PublishError, RepositoryConflict, StagingIncomplete, VersionDamaged
from adaptd.files import hash_file, make_folder, remove, sync_folder, try_to_remove, write_file
from adaptd.publishing.card import CARD_FILE, Card, read_card
from adaptd.publishing.triton import CONFIG_FILE, MODEL_FILE, ModelConfig, is_version, read_version

FILES = frozenset({MODEL_FILE, CARD_FILE})


@dataclass(frozen=True, slots=True)
class Published:
    """A version that stands in the repository."""

    version: int
    folder: Path

    @property
    def model(self) -> Path:
        """The ONNX file."""
        return self.folder / MODEL_FILE


class ModelRepository:
    """The versions of one model.

    Args:
        models: the repository's root; each of its folders is a model.
        name: the model's name.
        staging: where versions are put together, on the same filesystem and outside of `models`.
    """

    def __init__(self, models: Path, name: str, staging: Path) -> None:
        self.name = name
        self.folder = models / name
        self.staging = staging / name

    def list_versions(self) -> tuple[Published, ...]:
        """The published versions, oldest first. The last one is what Triton serves."""
        names = sorted(int(entry.name) for entry in self._entries() if is_version(entry.name) and entry.is_dir())
        return tuple(Published(version, self.folder / str(version)) for version in names)

    def find_latest(self) -> Published | None:
        """The version that is served; None before the first."""
        return max(self.list_versions(), key=lambda published: published.version, default=None)

    def list_odd(self) -> tuple[str, ...]:
        """A sentence for each thing that should not stand beside the versions, and what Triton makes of it."""
        odd = [entry for entry in self._entries() if entry.name != CONFIG_FILE]
        return tuple(
            f"{entry} is not a version of adaptd{_seen_by_triton(entry)}: move it away"
            for entry in sorted(odd)
            if not (is_version(entry.name) and entry.is_dir() and not entry.is_symlink())
        )

    def prepare(self, version: int) -> Path:
        """A fresh, empty folder to put a version together in: write `model.onnx` and `card.json` there."""
        folder = self.prepared(version)
        remove(folder)
        make_folder(folder)
        return folder

    def prepared(self, version: int) -> Path:
        """The folder that `prepare` made."""
        if not is_version(str(version)):
            raise ValueError(f"a version is a positive integer, not {version}")
        return self.staging / str(version)

    def check_place(self, card: Card) -> None:
        """Before a version counts: could it be published, and would it be served?

        Raises:
            RepositoryConflict: it could not, or would not.
        """
        self._check_config(ModelConfig.of(card))
        for entry in sorted(self._entries()):
            if entry.is_dir() and (read_version(entry.name) or 0) >= card.version:
                raise RepositoryConflict(f"{entry} would be served instead of version {card.version}: move it away")

    def seal(self, version: int) -> None:
        """Bring a staged version to the disk, so that a power cut after the commit does not take it away."""
        sync_folder(self.prepared(version))

    def discard(self, version: int) -> None:
        """Throw a staged version away."""
        remove(self.prepared(version))

    def publish(self, version: int, expected_sha256: str) -> Path:
        """Bring a staged version to its place by one rename; again is as good as once.

        Args:
            version: as given to `prepare`.
            expected_sha256: of `model.onnx`, as committed to the store.

        Raises:
            StagingIncomplete: the staged folder is gone, not whole, or holds another model.
            RepositoryConflict: another model stands there, or the versions would differ in shape.
        """
        target = self.folder / str(version)
        staged = self.prepared(version)
        if os.path.lexists(target):
            self._check_same(version, expected_sha256)
        else:
            card = self._check_staged(version, expected_sha256)
            self.seal(version)
            self._write_config(ModelConfig.of(card))
            _move(staged, target)
        remove(staged)
        return target

    def verify(self, version: int, expected_sha256: str | None = None) -> Card:
        """The card of a version whose every file is what was published.

        Raises:
            VersionDamaged: something is missing, too much, or changed.
        """
        folder = self.folder / str(version)
        card = self._check(folder, version, expected_sha256)
        try:
            config = (self.folder / CONFIG_FILE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VersionDamaged(f"cannot read {self.folder / CONFIG_FILE} ({error}): restore it from a backup") from error
        if not config.startswith(ModelConfig.of(card).text()):
            raise VersionDamaged(f"{self.folder / CONFIG_FILE} does not describe version {version}: restore it from a backup")
        return card

    def withdraw(self, version: int) -> None:
        """Take an old version out of the repository and delete it. The latest one is served and stays.

        Better keep the one before it as well: somebody who polls may be loading that one just now.
        """
        latest = self.find_latest()
        if latest is not None and version >= latest.version:
            raise PublishError(f"version {version} of {self.name} is the latest and is being served: publish another one first")
        folder = self.folder / str(version)
        if folder.is_dir():
            make_folder(self.staging)
            withdrawn = self.staging / f"withdrawn-{version}"
            remove(withdrawn)
            _move(folder, withdrawn)
            try_to_remove(withdrawn)

    def recover(self, promoted: Sequence[tuple[int, str]]) -> None:
        """After a start: finish what a kill left undone, oldest first, and clear the staging folder.

        Args:
            promoted: (version, SHA-256 of its model) for each version the store wants to stand here. One that is not whole in
                the staging folder stays away: it has to be exported again.
        """
        for version, sha256 in sorted(promoted):
            if os.path.lexists(self.folder / str(version)):
                continue
            with contextlib.suppress(StagingIncomplete):
                self.publish(version, sha256)
        for leftover in self.staging.iterdir() if self.staging.is_dir() else ():
            try_to_remove(leftover)

    def _entries(self) -> list[Path]:
        return list(self.folder.iterdir()) if self.folder.is_dir() else []

    def _check_staged(self, version: int, sha256: str) -> Card:
        try:
            return self._check(self.prepared(version), version, sha256)
        except VersionDamaged as error:
            raise StagingIncomplete(f"version {version} is not ready to be published, export it again: {error}") from error

    def _check_same(self, version: int, sha256: str) -> None:
        try:
            self._check(self.folder / str(version), version, sha256)
        except VersionDamaged as error:
            raise RepositoryConflict(
                f"version {version} of {self.name} is published already, as something else, and published versions never "
                f"change; publish under the next number ({error})"
            ) from error

    def _check(self, folder: Path, version: int, sha256: str | None) -> Card:
        """The card, if the folder holds exactly the files of this version."""
        try:
            entries = {path.name: path.is_file() and not path.is_symlink() for path in folder.iterdir()}
            others = sorted(name for name in entries.keys() | FILES if name not in FILES or not entries.get(name))
            found = hash_file(folder / MODEL_FILE) if not others else ""
        except OSError as error:
            raise VersionDamaged(f"cannot read version {version} in {folder} ({error.strerror})") from error
        if others:
            raise VersionDamaged(f"{folder} must hold {' and '.join(sorted(FILES))} as files; wrong: {', '.join(others)}")
        card = read_card(folder)
        if (card.model, card.version) != (self.name, version):
            raise VersionDamaged(f"the card in {folder} belongs to version {card.version} of {card.model}")
        for wanted, origin in ((card.model_sha256, "its card"), (sha256, "the store")):
            if wanted not in {None, found}:
                raise VersionDamaged(f"{folder / MODEL_FILE} is not the file {origin} tells of: its SHA-256 is {found[:12]}…")
        return card

    def _write_config(self, config: ModelConfig) -> None:
        """Once, before the first version. Any later change would make Triton reload every version."""
        self._check_config(config)
        path = self.folder / CONFIG_FILE
        if path.exists():
            return
        make_folder(self.folder)
        temporary = self.staging / CONFIG_FILE
        write_file(temporary, config.text().encode())
        _move(temporary, path)

    def _check_config(self, config: ModelConfig) -> None:
        path = self.folder / CONFIG_FILE
        if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(config.text()):
            raise RepositoryConflict(
                f"{path} describes models of another shape than the {config.classes} classes at {config.image_size} pixels "
                "to be published: choose another [model] name, so that clients of the old one are not broken"
            )


def _move(origin: Path, target: Path) -> None:
    """One rename: whoever publishes is alone in that, so the target is not there."""
    try:
        files.move(origin, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise PublishError(
            f"{origin.parent} and {target.parent} are on different filesystems: set [paths] state and models to the same one"
        ) from error


def _seen_by_triton(entry: Path) -> str:
    if not entry.is_dir():
        return ""
    version = read_version(entry.name)
    return ", and Triton ignores it" if version is None else f", but Triton takes it for version {version}"
