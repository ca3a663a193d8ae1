"""A person's word about versions: promote one, go back to an older one; and exporting again what a kill took away.

An old version comes back as the next number: whoever reads the repository takes the largest, and published is immutable. What
is done to a version later is done with the project's settings of that time, and their hash is on its card.
"""

from dataclasses import asdict, replace

from adaptd.errors import PublishError
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.lock import publishing_alone
from adaptd.publishing.card import GateOutcome
from adaptd.records import EventKind, Version, VersionState
from adaptd.releases.facts import Candidate, hash_settings
from adaptd.releases.images import read_image_sets
from adaptd.releases.lineage import PUBLISHED, find_chain, origin_of
from adaptd.releases.models import VersionModels
from adaptd.releases.publication import Judged, Publisher, Staged
from adaptd.releases.repositories import find_unpublished, int8_repository_of, publish, recover_alone
from adaptd.store import NewVersion, Store, Transaction


def promote(project: Project, store: Store, number: int, forced_because: str | None = None) -> Version:
    """Make a version the promoted one; one that the gate refuses only where a person says why.

    Estimates do not count here: they hold a candidate back until a person has decided, and this is the decision.
    """
    with publishing_alone(project.state):
        finish_publishing(project, store)
        with store.reading() as tx:
            version, promoted = get_version(tx, number), tx.versions.find_latest(VersionState.PROMOTED)
        _refuse_same(version, promoted)
        return Promoter(project, store, version, promoted, forced_because).run()


def roll_back(project: Project, store: Store, number: int | None = None) -> Version:
    """Bring an older version back: the one given, or the one before the promoted."""
    with publishing_alone(project.state):
        finish_publishing(project, store)
        with store.reading() as tx:
            promoted = tx.versions.find_latest(VersionState.PROMOTED)
            target = get_version(tx, number) if number is not None else _find_before(tx)
        if target.state not in PUBLISHED:
            raise PublishError(
                f"version {target.version} was {target.state}, there is no going back to it: "
                f"adaptd promote {target.version} --force --why REASON"
            )
        _refuse_same(target, promoted)
        return Promoter(project, store, target, promoted, f"rolled back to version {target.version}").run()


def finish_publishing(project: Project, store: Store) -> None:
    """Finish what a kill left undone; export the promoted version again where its files are gone. For who is alone in that."""
    recover_alone(project, store)
    lost = find_unpublished(project, store)
    if lost is not None:
        Promoter(project, store, lost, None, lost.forced_because).run_again()


def get_version(tx: Transaction, number: int) -> Version:
    """A version by its number, or an error that tells which there are."""
    known = [version.version for version in tx.versions.list_all()]
    if number not in known:
        raise PublishError(f"there is no version {number}: there are {', '.join(map(str, known)) or 'none yet'}")
    return tx.versions.get(number)


def _find_before(tx: Transaction) -> Version:
    """The version that was served before the one that is, unless somebody went back behind it."""
    chain = find_chain(tx.versions.list_all())
    if not chain:
        raise PublishError("nothing is promoted: there is nothing to go back from")
    if len(chain) == 1:
        raise PublishError(
            f"nothing was promoted before version {origin_of(chain[0])}, whose weights are served: "
            "`adaptd versions` lists all, and `adaptd rollback N` takes any that was promoted"
        )
    return chain[-2]


def _refuse_same(version: Version, promoted: Version | None) -> None:
    if promoted is None or version.weights_sha256 != promoted.weights_sha256:
        return
    if version.version == promoted.version:
        raise PublishError(f"version {version.version} is the promoted one already")
    raise PublishError(f"version {promoted.version} is promoted, and has the weights of version {version.version} already")


class Promoter:
    """Publishes the weights of a version that exists, under its own number or the next."""

    def __init__(
        self, project: Project, store: Store, version: Version, promoted: Version | None, forced_because: str | None
    ) -> None:
        self._project, self._store, self._version, self._promoted = project, store, version, promoted
        self._forced_because = forced_because
        layout = Layout(project.state)
        with store.reading() as tx:
            self._episode = tx.episodes.get(version.episode_id)
            self._row = tx.accuracies.list_for(origin_of(version))
            self._next = tx.versions.next_number()
            self._own_parent = None if version.parent is None else tx.versions.get(version.parent)
            images = read_image_sets(tx, layout)
        self._models = VersionModels(layout, images, project.settings.evaluation.batch_size)
        self._publisher = Publisher(project, store, images, self._models)

    def run(self) -> Version:
        """Evaluate, judge, export, prove, commit, publish."""
        old = self._version
        predictions = self._models.predict(old)
        gate = self._publisher.judge(self._promoted, predictions, Judged(old.version, old.classes, None))
        if not gate.passed and self._forced_because is None:
            said = " ".join(gate.reasons)
            raise PublishError(f"{said} To overrule the gate: adaptd promote {old.version} --force --why REASON")
        is_old = self._promoted is not None and old.version < self._promoted.version
        number = self._next if is_old else old.version
        staged = self._stage(number, origin_of(old) if is_old else None, gate, self._promoted)
        with self._store.writing() as tx:
            self._commit(tx, number, staged, is_old=is_old)
            version = tx.versions.get(number)
        publish(self._project, self._store, version)
        return version

    def run_again(self) -> None:
        """The same version once more: it was promoted before."""
        assert self._version.gate is not None
        gate = GateOutcome.model_validate(asdict(self._version.gate))
        staged = self._stage(self._version.version, self._version.restores, gate, self._own_parent)
        number = self._version.version
        if (int8_repository_of(self._project).folder / str(number)).is_dir():
            staged = replace(staged, int8=self._version.int8)
        with self._store.writing() as tx:
            self._publisher.record(tx, number, staged)
            version = tx.versions.get(number)
            tx.events.add(EventKind.VERSION_EXPORTED_AGAIN, f"the files of version {number} were lost", version=number)
        publish(self._project, self._store, version)

    def _stage(self, number: int, restores: int | None, gate: GateOutcome, parent: Version | None) -> Staged:
        """Export and prove."""
        version, episode = self._version, self._episode
        candidate = Candidate(
            number=number,
            model=self._models.load(version),
            weights_sha256=version.weights_sha256,
            episode=episode,
            episode_number=episode.number or 0,
            config_hash=hash_settings(self._project.settings, episode),
            parent=parent,
            row=self._row,
            restores=restores,
            forced_because=None if gate.passed else self._forced_because,
        )
        staged = self._publisher.prove(candidate, self._publisher.export(candidate, gate))
        if staged.sha256 is None:
            raise PublishError(f"version {version.version} cannot be published: {staged.gate.reasons[0]}")
        return staged

    def _commit(self, tx: Transaction, number: int, staged: Staged, *, is_old: bool) -> None:
        old = self._version
        if is_old:
            parent = self._promoted.version if self._promoted else None
            tx.versions.add(NewVersion(parent, old.episode_id, old.classes, old.weights_path, old.weights_sha256, origin_of(old)))
        self._publisher.record(tx, number, staged)
        what = f"version {number}" + (f", the weights of version {origin_of(old)}," if is_old else "")
        message = f"{what} was promoted" + (f": {self._forced_because}" if self._forced_because else "")
        about = {"version": number, "episode_id": old.episode_id, "domain_id": self._episode.domain_id}
        tx.events.add(EventKind.VERSION_PROMOTED, message, **about)
        if staged.forced_because:
            tx.events.add(EventKind.VERSION_FORCED, staged.forced_because, **about)
