"""The model repositories of a project as the store wants them: finished after a kill, thinned out by retention. Needs no torch.

There is one for the versions and, where int8 is wanted, one for their int8 models.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.lock import publishing_alone
from adaptd.publishing.repository import ModelRepository, Published
from adaptd.publishing.triton import quantized_name
from adaptd.records import EventKind, Version, VersionState
from adaptd.releases.lineage import PUBLISHED
from adaptd.store import Store

log = logging.getLogger(__name__)

Promises = dict[str, dict[int, str]]
"""Model name → version → SHA-256 of its file: what must stand in the models folder."""


def repository_of(project: Project, name: str | None = None) -> ModelRepository:
    """Where the project's versions, or those under another name, are published."""
    return ModelRepository(project.models, name or project.settings.model.name, Layout(project.state).staging)


def int8_repository_of(project: Project) -> ModelRepository:
    """Where their int8 models are."""
    return repository_of(project, quantized_name(project.settings.model.name))


def find_promises(versions: Iterable[Version]) -> Promises:
    """What the store wants to stand in the models folder: promoted versions, and their int8 models.

    Where no promoted version has an int8 model, the newest of these stays: its clients have nothing better.
    """
    found: Promises = {}
    newest: dict[str, tuple[int, str]] = {}
    for version in (v for v in versions if v.state in PUBLISHED and v.model_path is not None):
        name, digest, int8 = (
            Path(version.model_path or "").parts[0],
            version.model_sha256,
            version.int8.sha256 if version.int8 else None,
        )
        if int8 is not None:
            newest[quantized_name(name)] = (version.version, int8)
        if version.state is VersionState.PROMOTED and digest is not None:
            found.setdefault(name, {})[version.version] = digest
            if int8 is not None:
                found.setdefault(quantized_name(name), {})[version.version] = int8
    for name, (number, digest) in newest.items():
        found.setdefault(name, {number: digest})
    return found


def publish(project: Project, store: Store, version: Version) -> None:
    """Show a version that the store has promoted, and its int8 model, then retire what retention does not keep."""
    for name, promised in find_promises([version]).items():
        for number, digest in promised.items():
            repository_of(project, name).publish(number, digest)
    _retire(project, store)


def recover_repository(project: Project, store: Store) -> None:
    """Bring what was promoted before a kill to its place, as far as that needs no torch."""
    with publishing_alone(project.state):
        recover_alone(project, store)


def recover_alone(project: Project, store: Store) -> None:
    """The same, for who puts versions together and is alone in that already."""
    with store.reading() as tx:
        versions = tx.versions.list_all()
    empty: Promises = {repository.name: {} for repository in (repository_of(project), int8_repository_of(project))}
    for name, promised in (empty | find_promises(versions)).items():
        repository_of(project, name).recover(sorted(promised.items()))
    for unexpected in _withdraw(project, versions):
        log.warning("%s stands there, but the store did not promote it: move it away", unexpected)


def find_unpublished(project: Project, store: Store) -> Version | None:
    """The promoted version where its folder is missing: it has to be exported again."""
    with store.reading() as tx:
        promoted = tx.versions.find_latest(VersionState.PROMOTED)
    if promoted is None or promoted.model_path is None or (project.models / promoted.model_path).is_dir():
        return None
    return promoted


def _retire(project: Project, store: Store) -> None:
    """Take versions out of the repository beyond `export.keep_versions`. Their weights stay, so that they can come back."""
    keep = project.settings.export.keep_versions
    with store.reading() as tx:
        promoted = [v for v in tx.versions.list_all() if v.state is VersionState.PROMOTED]
    old = promoted[:-keep] if keep else []
    if not old:
        return
    with store.writing() as tx:
        for version in old:
            tx.versions.set_state(version.version, VersionState.RETIRED)
            tx.events.add(EventKind.VERSION_RETIRED, f"version {version.version} was retired", version=version.version)
        versions = tx.versions.list_all()
    _withdraw(project, versions)


def _withdraw(project: Project, versions: Sequence[Version]) -> list[Path]:
    """Take retired versions out of the models folder; those that nobody promised are only returned."""
    retired = {version.version for version in versions if version.state is VersionState.RETIRED}
    unexpected: list[Path] = []
    for name, promised in find_promises(versions).items():
        repository = repository_of(project, name)
        latest = repository.find_latest()
        for found in repository.list_versions():
            if found.version in promised:
                continue
            if found.version not in retired:
                unexpected.append(found.folder)
            elif found != latest:
                try:
                    repository.withdraw(found.version)
                except OSError as problem:
                    log.warning("%s: %s", _tell_undeleted(found), problem.strerror)
    return unexpected


def list_undeleted(project: Project, store: Store) -> tuple[str, ...]:
    """A sentence for each retired version that still stands in the models folder: another user owns it, say."""
    with store.reading() as tx:
        versions = tx.versions.list_all()
    retired = {version.version for version in versions if version.state is VersionState.RETIRED}
    found: list[str] = []
    for name, promised in find_promises(versions).items():
        repository = repository_of(project, name)
        latest = repository.find_latest()
        standing = (each for each in repository.list_versions() if each.version in retired - promised.keys())
        found += [_tell_undeleted(each) for each in standing if each != latest]
    return tuple(found)


def _tell_undeleted(found: Published) -> str:
    return f"version {found.version} is retired, but {found.folder} cannot be deleted: give adaptd the permission, or delete it"
