"""The model repository of a project as the store wants it: finished after a kill, thinned out by retention. Needs no torch."""

import logging

from adaptd.config import Project
from adaptd.daemon.layout import Layout
from adaptd.daemon.lock import publishing_alone
from adaptd.publishing.repository import Repository
from adaptd.records import Version, VersionState
from adaptd.store import Store

log = logging.getLogger(__name__)


def repository_of(project: Project) -> Repository:
    """Where the project's versions are published."""
    return Repository(project.models, project.settings.model.name, Layout(project.state).staging)


def publish(project: Project, store: Store, version: Version) -> None:
    """Show a version that the store has promoted, then retire what retention does not keep."""
    assert version.model_sha256 is not None
    repository_of(project).publish(version.version, version.model_sha256)
    retire(project, store)


def recover_repository(project: Project, store: Store) -> None:
    """Bring what was promoted before a kill to its place, as far as that needs no torch."""
    with publishing_alone(project.state):
        _recover(project, store)


def _recover(project: Project, store: Store) -> None:
    with store.reading() as tx:
        versions = tx.versions.list_all()
    wanted = [(v.version, v.model_sha256) for v in versions if v.state is VersionState.PROMOTED and v.model_sha256]
    repository = repository_of(project)
    retired = {v.version for v in versions if v.state is VersionState.RETIRED}
    for version in repository.recover(wanted).unexpected:
        if version in retired:
            repository.withdraw(version)
            continue
        log.warning("version %s stands in %s, but the store did not promote it", version, project.models)


def find_unpublished(store: Store, project: Project) -> Version | None:
    """The promoted version where its folder is missing: it has to be exported again."""
    with store.reading() as tx:
        promoted = tx.versions.find_latest(VersionState.PROMOTED)
    if promoted is None or promoted.model_path is None or (project.models / promoted.model_path).is_dir():
        return None
    return promoted


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
        repository_of(project).withdraw(version.version)
