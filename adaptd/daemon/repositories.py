"""The model repository of a project as the store wants it: finished after a kill, thinned out by retention. Needs no torch."""

import logging

from adaptd.config import Project
from adaptd.daemon.layout import Layout
from adaptd.daemon.lock import publishing_alone
from adaptd.publishing.repository import Repository
from adaptd.records import Version, VersionState
from adaptd.store import Store

log = logging.getLogger(__name__)

TWIN = "int8"
"""Under this name a version's gate tells what came of its int8 twin."""


def repository_of(project: Project) -> Repository:
    """Where the project's versions are published."""
    return Repository(project.models, project.settings.model.name, Layout(project.state).staging)


def twin_repository_of(project: Project) -> Repository:
    """Where their int8 twins are."""
    return Repository(project.models, f"{project.settings.model.name}-int8", Layout(project.state).staging)


def publish(project: Project, store: Store, version: Version) -> None:
    """Show a version that the store has promoted, and its twin, then retire what retention does not keep."""
    for repository, digest in _promised(project, version):
        repository.publish(version.version, digest)
    retire(project, store)


def _promised(project: Project, version: Version) -> list[tuple[Repository, str]]:
    """Where a promoted version must stand, and with which hash."""
    found = [(repository_of(project), version.model_sha256)]
    found.append((twin_repository_of(project), ((version.gate or {}).get(TWIN) or {}).get("sha256")))
    return [(repository, digest) for repository, digest in found if digest is not None]


def recover_repository(project: Project, store: Store) -> None:
    """Bring what was promoted before a kill to its place, as far as that needs no torch."""
    with publishing_alone(project.state):
        with store.reading() as tx:
            versions = tx.versions.list_all()
        promoted = [v for v in versions if v.state is VersionState.PROMOTED]
        retired = {v.version for v in versions if v.state is VersionState.RETIRED}
        for repository in (repository_of(project), twin_repository_of(project)):
            promises = [(v.version, digest) for v in promoted for r, digest in _promised(project, v) if r.name == repository.name]
            for version in repository.recover(promises).unexpected:
                if version in retired:
                    repository.withdraw(version)
                else:
                    log.warning("version %s stands in %s, but the store did not promote it", version, repository.folder)


def find_unpublished(store: Store, project: Project) -> Version | None:
    """The promoted version where its folder is missing: it has to be exported again."""
    with store.reading() as tx:
        promoted = tx.versions.find_latest(VersionState.PROMOTED)
    if promoted is None:
        return None
    missing = [r for r, _ in _promised(project, promoted) if not (r.folder / str(promoted.version)).is_dir()]
    return promoted if missing else None


def retire(project: Project, store: Store) -> None:
    """Take versions out of the repository beyond `export.keep_versions`. Their weights stay, so that they can come back."""
    keep = project.settings.export.keep_versions
    with store.reading() as tx:
        promoted = [v for v in tx.versions.list_all() if v.state is VersionState.PROMOTED and v.model_path]
    old = promoted[:-keep] if keep else []
    if not old:
        return
    with store.writing() as tx:
        for version in old:
            tx.versions.set_state(version.version, VersionState.RETIRED)
            tx.events.add("version-retired", f"version {version.version} was retired", version=version.version)
    for version in old:
        for repository, _ in _promised(project, version):
            repository.withdraw(version.version)
