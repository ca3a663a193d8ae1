"""A person's word about versions: promote one, go back to an older one; and exporting again what a kill took away.

An old version comes back as the next number: whoever reads the repository takes the largest, and published is immutable.
"""

from adaptd.config import Project
from adaptd.daemon.answers import ask
from adaptd.daemon.layout import Layout
from adaptd.daemon.lock import publishing_alone
from adaptd.daemon.materials import Materials
from adaptd.daemon.publication import Candidate, Publisher, Staged
from adaptd.daemon.repositories import publish
from adaptd.daemon.versions import load_version
from adaptd.errors import PublishError
from adaptd.publishing.card import GateOutcome
from adaptd.records import Version, VersionState
from adaptd.store import NewVersion, Store, Transaction

PUBLISHED = (VersionState.PROMOTED, VersionState.RETIRED)


def promote(project: Project, store: Store, number: int, forced_because: str | None = None) -> Version:
    """Make a version the promoted one; one that the gate refuses only where a person says why."""
    with publishing_alone(project.state):
        with store.reading() as tx:
            version, promoted = get_version(tx, number), tx.versions.find_latest(VersionState.PROMOTED)
        if promoted is not None and promoted.version == number:
            raise PublishError(f"version {number} is the promoted one already")
        return Promoter(project, store, version, promoted, forced_because).run()


def roll_back(project: Project, store: Store, number: int | None = None) -> Version:
    """Bring an older version back: the one given, or the one before the promoted."""
    with publishing_alone(project.state):
        with store.reading() as tx:
            promoted = tx.versions.find_latest(VersionState.PROMOTED)
            target = get_version(tx, number) if number is not None else _find_before(tx, promoted)
        if target.state not in PUBLISHED:
            raise PublishError(
                f"version {target.version} is {target.state}: `adaptd promote {target.version} --force --why …` can"
            )
        if promoted is not None and target.weights_sha256 == promoted.weights_sha256:
            raise PublishError(f"version {promoted.version} has the weights of version {target.version} already")
        return Promoter(project, store, target, promoted, f"rolled back to version {target.version}").run()


def publish_again(project: Project, store: Store, version: Version) -> None:
    """Export a version once more that was promoted, and whose files are gone."""
    with publishing_alone(project.state):
        Promoter(project, store, version, version, None).stage_again()


def get_version(tx: Transaction, number: int) -> Version:
    """A version by its number, or an error that tells which there are."""
    known = [version.version for version in tx.versions.list_all()]
    if number not in known:
        raise PublishError(f"there is no version {number}: there are {', '.join(map(str, known)) or 'none yet'}")
    return tx.versions.get(number)


def _find_before(tx: Transaction, promoted: Version | None) -> Version:
    """The promoted version before the one whose weights are served now."""
    if promoted is None:
        raise PublishError("nothing is promoted: there is nothing to go back from")
    origin = promoted.restores or promoted.version
    before = [v for v in tx.versions.list_all() if v.version < origin and v.state in PUBLISHED and v.restores is None]
    if not before:
        raise PublishError(f"there is no promoted version before version {origin}")
    return before[-1]


class Promoter:
    """Publishes the weights of a version that exists, under its own number or the next."""

    def __init__(
        self, project: Project, store: Store, version: Version, promoted: Version | None, forced_because: str | None
    ) -> None:
        self._project, self._store, self._version, self._promoted = project, store, version, promoted
        self._forced_because = forced_because
        with store.reading() as tx:
            self._episode = tx.episodes.get(version.episode_id)
            self._row = [a for a in tx.accuracies.list_all() if a.version == (version.restores or version.version)]
            self._next = tx.versions.next_number()
            self._materials = Materials.read(tx, Layout(project.state), self._episode)
        self._publisher = Publisher(project, store, self._materials)
        self._model = load_version(Layout(project.state), version)

    def run(self) -> Version:
        """Judge, export, prove, commit, publish."""
        is_old = self._promoted is not None and self._version.version < self._promoted.version
        number = self._next if is_old else self._version.version
        staged = self._stage(number, self._version.version if is_old else None, self._judge())
        if staged.sha256 is None:
            said = " ".join(staged.gate.reasons)
            raise PublishError(f"{said} To overrule the gate: adaptd promote {self._version.version} --force --why REASON")
        with self._store.writing() as tx:
            self._commit(tx, number, staged, is_old=is_old)
            version = tx.versions.get(number)
        publish(self._project, self._store, version)
        return version

    def stage_again(self) -> None:
        """The same version once more: it passed the gate before."""
        assert self._version.gate is not None
        gate = GateOutcome.model_validate(self._version.gate)
        staged = self._stage(self._version.version, self._version.restores, gate)
        if staged.sha256 is None:
            raise PublishError(f"version {self._version.version} cannot be exported again: {staged.gate.reasons[0]}")
        with self._store.writing() as tx:
            self._publisher.record(tx, self._version.version, staged)
            version = tx.versions.get(self._version.version)
        publish(self._project, self._store, version)

    def _judge(self) -> GateOutcome:
        answers = ask(self._model, self._materials, self._project.settings.evaluation.batch_size)
        return self._publisher.judge(self._promoted, answers, self._version.classes)

    def _stage(self, number: int, restores: int | None, gate: GateOutcome) -> Staged:
        candidate = Candidate(
            number,
            self._model,
            self._version.weights_sha256,
            self._episode,
            self._episode.number or 0,
            self._promoted,
            self._row,
            restores,
            self._forced_because if not gate.passed else None,
        )
        return self._publisher.stage(candidate, gate)

    def _commit(self, tx: Transaction, number: int, staged: Staged, *, is_old: bool) -> None:
        old = self._version
        if is_old:
            parent = self._promoted.version if self._promoted else None
            tx.versions.add(
                NewVersion(parent, old.episode_id, old.classes, old.weights_path, old.weights_sha256, old.restores or old.version)
            )
        self._publisher.record(tx, number, staged)
        what = f"version {number}" + (f", the weights of version {old.version}," if is_old else "")
        message = f"{what} was promoted" + (f": {self._forced_because}" if self._forced_because else "")
        about = {"version": number, "episode_id": old.episode_id, "domain_id": self._episode.domain_id}
        tx.events.add("version-promoted", message, **about)
        if self._forced_because and not staged.gate.passed:
            tx.events.add("version-forced", self._forced_because, **about)
