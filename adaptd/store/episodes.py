"""Episodes: the queue, the lease of whoever works on one, progress, and the commit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, select, update

from adaptd.errors import StoreConflict
from adaptd.records import Checkpoint, Episode, EpisodeState, Lease, Progress
from adaptd.store.repository import Repository, fields, only
from adaptd.store.tables import checkpoints, domains, episodes


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """An episode about to be queued."""

    domain_id: int
    method: str
    seed: int
    config: Mapping[str, Any]
    config_hash: str
    delivery: int = 1


class Episodes(Repository):
    """All episodes.

    An episode is worked on only under a lease. Every lease has a higher fence than the one before; a write with an older
    fence raises StoreConflict and changes nothing, so that a worker thought dead cannot spoil its successor's work. `commit`
    gives the episode its number t and is the only way to `done`.
    """

    def add(self, new: NewEpisode) -> Episode:
        """Queue an episode."""
        row = {name: getattr(new, name) for name in NewEpisode.__slots__} | {"config": dict(new.config)}
        row |= {"state": EpisodeState.QUEUED, "phase": "waiting", "step": 0, "steps": 0, "report": {}}
        return self.get(self._add(insert(episodes).values(row | {"created_at": self._clock()})))

    def get(self, episode_id: int) -> Episode:
        """By id."""
        row = self._connection.execute(select(episodes).where(episodes.c.id == episode_id)).first()
        return _record(only(row, f"episode with id {episode_id}"))

    def find_unfinished(self, domain_id: int) -> Episode | None:
        """The queued or training episode of a domain."""
        open_states = (EpisodeState.QUEUED, EpisodeState.TRAINING)
        statement = select(episodes).where(episodes.c.domain_id == domain_id, episodes.c.state.in_(open_states))
        row = self._connection.execute(statement.order_by(episodes.c.id)).first()
        return None if row is None else _record(row)

    def list_unfinished(self) -> tuple[tuple[int, str], ...]:
        """Ids of all queued and training episodes with their domains' names, oldest first: asked for all the time."""
        open_states = (EpisodeState.QUEUED, EpisodeState.TRAINING)
        statement = select(episodes.c.id, domains.c.name).join(domains, domains.c.id == episodes.c.domain_id)
        rows = self._connection.execute(statement.where(episodes.c.state.in_(open_states)).order_by(episodes.c.id))
        return tuple((key, name) for key, name in rows)

    def last_delivery(self, domain_id: int) -> int:
        """The newest delivery of a domain that an episode learned from, or still will; 0 where there is none."""
        kept = episodes.c.state.in_((EpisodeState.QUEUED, EpisodeState.TRAINING, EpisodeState.DONE))
        statement = select(func.max(episodes.c.delivery)).where(episodes.c.domain_id == domain_id, kept)
        return self._connection.execute(statement).scalar() or 0

    def list_all(self, state: EpisodeState | None = None) -> tuple[Episode, ...]:
        """All episodes, or those in one state, in the order in which they were queued."""
        statement = select(episodes).order_by(episodes.c.id)
        if state is not None:
            statement = statement.where(episodes.c.state == state)
        return tuple(_record(row) for row in self._connection.execute(statement))

    def lease(self, episode_id: int, owner: str, boot_id: str, expires_monotonic: float, gone: Lease | None = None) -> Lease:
        """Hand the episode to `owner` with a new fence, and count the attempt.

        Args:
            episode_id: a queued or training episode.
            owner: who will work on it.
            boot_id: of the machine it works on.
            expires_monotonic: on that machine's clock.
            gone: the lease whose owner was found to be gone; any other that stands is respected.

        Raises:
            StoreConflict: the episode is over, or another owner holds it.
        """
        episode = self.get(episode_id)
        if episode.state not in {EpisodeState.QUEUED, EpisodeState.TRAINING}:
            raise StoreConflict(f"episode {episode_id} is {episode.state}, there is nothing left to do")
        if episode.lease not in {None, gone}:
            assert episode.lease is not None
            raise StoreConflict(f"the episode is being worked on by {episode.lease.owner}")
        fence = self._connection.execute(select(episodes.c.lease_fence).where(episodes.c.id == episode_id)).scalar_one() + 1
        values = {
            "lease_owner": owner,
            "lease_fence": fence,
            "lease_boot_id": boot_id,
            "lease_expires_monotonic": expires_monotonic,
            "state": EpisodeState.TRAINING,
            "attempts": episode.attempts + 1,
            "leased_at": self._clock(),
            "leased_step": self._checkpointed_step(episode_id),
            "started_at": episode.started_at or self._clock(),
        }
        self._connection.execute(update(episodes).where(episodes.c.id == episode_id).values(values))
        return Lease(owner, fence, boot_id, expires_monotonic)

    def release(self, episode_id: int, lease: Lease) -> None:
        """Give the lease back: whoever comes next need not wait for it to expire."""
        self._write(episode_id, lease, lease_owner=None)

    def renew(self, episode_id: int, lease: Lease, expires_monotonic: float) -> Lease:
        """Keep the lease for longer."""
        self._write(episode_id, lease, lease_expires_monotonic=expires_monotonic)
        return Lease(lease.owner, lease.fence, lease.boot_id, expires_monotonic)

    def progress(self, episode_id: int, lease: Lease, progress: Progress) -> None:
        """Tell how far it is."""
        self._write(
            episode_id,
            lease,
            phase=progress.phase,
            step=progress.step,
            steps=progress.steps,
            live=progress.live,
            progressed_at=self._clock(),
        )

    def set_base(self, episode_id: int, lease: Lease, version: int | None) -> None:
        """Record the version that it begins with."""
        self._write(episode_id, lease, base=version)

    def report(self, episode_id: int, lease: Lease, report: Mapping[str, Any]) -> None:
        """Tell what is known before it is done; the commit's report takes its place."""
        self._write(episode_id, lease, report=dict(report))

    def next_number(self) -> int:
        """The number t that the next committed episode will have."""
        last: int | None = self._connection.execute(select(func.max(episodes.c.number))).scalar()
        return 0 if last is None else last + 1

    def numbers(self) -> dict[int, int]:
        """The numbers t of all committed episodes, by their ids."""
        statement = select(episodes.c.id, episodes.c.number).where(episodes.c.number.is_not(None))
        return dict(self._connection.execute(statement).all())

    def commit(self, episode_id: int, lease: Lease, report: Mapping[str, Any]) -> int:
        """Finish the episode and return its number t."""
        number = self.next_number()
        self._end(episode_id, lease, EpisodeState.DONE, number=number, report=dict(report), phase="done")
        return number

    def fail(self, episode_id: int, lease: Lease, reason: str, report: Mapping[str, Any] | None = None) -> None:
        """Set the episode aside with its reason; what was found out until then joins what it told before."""
        told = self.get(episode_id).report | dict(report or {})
        self._end(episode_id, lease, EpisodeState.FAILED, reason=reason, report=told)

    def give_up(self, episode_id: int, reason: str) -> None:
        """Fail an episode whose worker is gone."""
        self._take_away(episode_id, EpisodeState.FAILED, reason)

    def cancel(self, episode_id: int, reason: str) -> None:
        """Take the episode from whoever works on it."""
        self._take_away(episode_id, EpisodeState.CANCELLED, reason)

    def withdraw(self, episode_id: int, reason: str) -> None:
        """Fail an episode that was done, for its version was withdrawn; its number is free again."""
        values = {"state": EpisodeState.FAILED, "reason": reason, "number": None}
        self._connection.execute(update(episodes).where(episodes.c.id == episode_id).values(values))

    def find_newest(self, domain_id: int) -> Episode | None:
        """The episode of a domain that was queued last."""
        statement = select(episodes).where(episodes.c.domain_id == domain_id).order_by(episodes.c.id.desc()).limit(1)
        row = self._connection.execute(statement).first()
        return None if row is None else _record(row)

    def amend(self, episode_id: int, **told: Any) -> None:
        """What an episode that is over told is not so any more."""
        report = self.get(episode_id).report | told
        self._connection.execute(update(episodes).where(episodes.c.id == episode_id).values(report=report))

    def count_crash(self, episode_id: int) -> int:
        """Its worker died: how often in a row without getting any further."""
        step, episode = self._checkpointed_step(episode_id), self.get(episode_id)
        crashes = episode.crashes + 1 if episode.crash_step == step else 1
        values = {"crashes": crashes, "crash_step": step}
        self._connection.execute(update(episodes).where(episodes.c.id == episode_id).values(values))
        return crashes

    def _checkpointed_step(self, episode_id: int) -> int:
        statement = select(func.max(checkpoints.c.step)).where(checkpoints.c.episode_id == episode_id)
        return self._connection.execute(statement).scalar() or 0

    def _take_away(self, episode_id: int, state: EpisodeState, reason: str) -> None:
        fence = episodes.c.lease_fence + 1
        values = {"state": state, "reason": reason, "lease_fence": fence, "finished_at": self._clock(), "lease_owner": None}
        self._connection.execute(update(episodes).where(episodes.c.id == episode_id).values(values))

    def _end(self, episode_id: int, lease: Lease, state: EpisodeState, **values: Any) -> None:
        self._write(episode_id, lease, state=state, finished_at=self._clock(), lease_owner=None, **values)

    def _write(self, episode_id: int, lease: Lease, **values: Any) -> None:
        mine = (
            episodes.c.id == episode_id,
            episodes.c.lease_fence == lease.fence,
            episodes.c.lease_owner == lease.owner,
        )
        if self._connection.execute(update(episodes).where(*mine).values(values)).rowcount != 1:
            raise StoreConflict(f"the lease of episode {episode_id} was taken by another worker")


class Checkpoints(Repository):
    """Checkpoints of running episodes: files are written first, the row makes them count."""

    def add(self, episode_id: int, step: int, path: str, sha256: str) -> Checkpoint:
        """Commit a checkpoint whose files are safe on disk."""
        row = {"episode_id": episode_id, "step": step, "path": path, "sha256": sha256, "created_at": self._clock()}
        return Checkpoint(id=self._add(insert(checkpoints).values(row)), **row)  # type: ignore[arg-type]

    def list_for(self, episode_id: int) -> tuple[Checkpoint, ...]:
        """An episode's checkpoints, newest first."""
        statement = select(checkpoints).where(checkpoints.c.episode_id == episode_id).order_by(checkpoints.c.step.desc())
        return tuple(Checkpoint(**fields(row)) for row in self._connection.execute(statement))

    def forget(self, checkpoint_id: int) -> None:
        """Drop the row; its files may be deleted afterwards."""
        self._connection.execute(checkpoints.delete().where(checkpoints.c.id == checkpoint_id))

    def forget_all(self, episode_id: int | None = None) -> None:
        """Drop the rows of one episode, or all: after a commit, others would go on from a model that is not the newest."""
        statement = checkpoints.delete()
        self._connection.execute(statement if episode_id is None else statement.where(checkpoints.c.episode_id == episode_id))


def _record(row: object) -> Episode:
    values = fields(row)  # type: ignore[arg-type]
    owner, fence = values.pop("lease_owner"), values.pop("lease_fence")
    boot_id, expires = values.pop("lease_boot_id"), values.pop("lease_expires_monotonic")
    lease = None if owner is None else Lease(owner, fence, boot_id, expires)
    names = ("phase", "step", "steps", "live", "progressed_at", "leased_at", "leased_step")
    progress = Progress(*(values.pop(name) for name in names))
    return Episode(**values | {"state": EpisodeState(values["state"]), "lease": lease, "progress": progress})
