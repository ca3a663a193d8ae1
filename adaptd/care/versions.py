"""I3 and I6: the chain of versions, and that every file is what its row says. What the models answer was proven before."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from adaptd.care.view import Finding, View
from adaptd.errors import VersionDamaged
from adaptd.files import hash_file
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.publishing.repository import ModelRepository
from adaptd.publishing.triton import MODEL_FILE
from adaptd.records import EpisodeState, VersionState
from adaptd.releases.lineage import PUBLISHED
from adaptd.releases.repositories import Promises, find_promises, repository_of

BACKUP = "restore the file from a backup"
ROLL_BACK = "restore the folder from a backup, or `adaptd rollback` to a version that is whole"


def check_weights(view: View, layout: Layout) -> Iterator[Finding]:
    """I6: weights are those that were committed. That no disturbance changed them is shown by tests, with a second run."""
    digest = cache(_find_hash)
    for version in view.versions:
        path = layout.state / version.weights_path
        found = digest(path)
        if found is None and version.state is VersionState.REJECTED:
            continue  # `gc --rejected` may delete them
        if found != version.weights_sha256:
            fact = "are missing" if found is None else f"are damaged, their SHA-256 is {found[:12]}…"
            yield Finding("I6", f"version {version.version}: the weights in {path} {fact}", BACKUP)


def check_chain(view: View) -> Iterator[Finding]:
    """I3: each promoted version follows the promoted one before it, and every version comes from a committed episode."""
    done, before = {episode.id for episode in view.episodes if episode.state is EpisodeState.DONE}, None
    repair = "restore the database's backup"
    for version in view.versions:
        title = f"version {version.version}"
        if version.episode_id not in done:
            yield Finding("I3", f"{title} is of episode {version.episode_id}, which is not committed", repair)
        if version.parent is not None and version.parent >= version.version:
            yield Finding("I3", f"{title} has a parent that came later, version {version.parent}", repair)
        if version.state not in PUBLISHED:
            continue
        if before is not None and version.parent != before.version:
            fact = f"{title} follows version {version.parent or 'none'}, but version {before.version} was promoted before it"
            yield Finding("I3", fact, repair)
        before = version
    numbers = [version.version for version in view.versions]
    if numbers != list(range(1, len(numbers) + 1)):
        yield Finding("I3", f"versions are not numbered 1 … {len(numbers)} without a gap", repair)


def check_models(view: View, project: Project, *, every: bool) -> Iterator[Finding]:
    """I3: published models are what was proven, with their cards, and load; nothing else stands among them. Twins likewise.

    Args:
        view: what the store says.
        project: whose models folder it is.
        every: load every model, not only the newest: what has its hash was loaded when it was published.
    """
    retired = {version.version for version in view.versions if version.state is VersionState.RETIRED}
    promises: Promises = {project.settings.model.name: {}} | find_promises(view.versions)
    for name, promised in promises.items():
        repository = repository_of(project, name)
        for number, digest in promised.items():
            if is_staged(repository, number, digest):
                continue
            try:
                repository.verify(number, digest)
                if every or number == max(promised):
                    _load(repository.folder / str(number) / MODEL_FILE)
            except VersionDamaged as problem:
                yield Finding("I3", f"version {number}: {problem}", ROLL_BACK)
        yield from _check_others(repository, promised, retired)


def _check_others(repository: ModelRepository, promised: Mapping[int, str], retired: set[int]) -> Iterator[Finding]:
    latest = repository.find_latest()
    for found in repository.list_versions():
        if found.version in retired and found.version not in promised and found != latest:
            fact = f"version {found.version} is retired, but {found.folder} still stands there"
            yield Finding("I3", fact, "give adaptd the permission to delete it, and start the daemon; or delete it")
        elif found.version not in promised:
            fact = f"{found.folder} is of no promoted version, and whoever reads the repository would serve it"
            yield Finding("I3", fact, "start the daemon, which finishes what was interrupted; else move the folder away")
    for sentence in repository.list_odd():
        fact, _, repair = sentence.rpartition(": ")
        yield Finding("I3", fact, repair)


def is_staged(repository: ModelRepository, version: int, digest: str) -> bool:
    """Whether a version was committed and still waits to be published: the row comes first, and the daemon finishes it."""
    if (repository.folder / str(version)).exists():
        return False
    return _find_hash(repository.staging / str(version) / MODEL_FILE) == digest


def _load(model: Path) -> None:
    # Only where there is a model to load: ONNX Runtime takes a third of a second.
    from adaptd.publishing.session import open_session  # noqa: PLC0415

    open_session(model, threads=1)


def _find_hash(path: Path) -> str | None:
    try:
        return hash_file(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
