"""Trying a domain again: from which states, with which settings, and for which episode these count."""

from dataclasses import replace

import pytest

from adaptd.daemon.control import resolve_retry, retry
from adaptd.daemon.draining import find_ended, list_failures
from adaptd.daemon.queue import read_next_jobs
from adaptd.errors import ConfigError, EpisodeError
from adaptd.project.layers import load_project
from adaptd.records import DomainState, VersionState
from adaptd.store import NewDrop, NewEpisode, NewVersion, Store


@pytest.fixture
def project(tmp_path):
    """A project without anything in its file."""
    (tmp_path / "adaptd.toml").write_text("")
    return load_project(tmp_path, {})


@pytest.fixture
def store(address):
    """A source version, and a domain with one drop, on each engine."""
    with Store(address) as store:
        with store.writing() as tx:
            for name in ("source", "camera"):
                tx.domains.add(name, DomainState.DONE)
            tx.drops.add(NewDrop(2, 1, "domains/2/1", "camera", "0" * 64, 3, 9))
            commit(tx, 1)
        yield store


def commit(tx, domain_id: int, state: VersionState = VersionState.PROMOTED) -> None:
    """An episode with its version."""
    method = "supervised" if domain_id == 1 else "guarded"
    episode = tx.episodes.add(NewEpisode(domain_id, method, 0, {}, "0" * 64))
    lease = tx.episodes.lease(episode.id, "worker", "boot", 1.0)
    tx.domains.place(domain_id)
    base = tx.versions.find_base()
    tx.episodes.set_base(episode.id, lease, base and base.version)
    tx.episodes.commit(episode.id, lease, {})
    tx.versions.add(NewVersion(None, episode.id, ("a", "b"), f"w{episode.id}", str(episode.id) * 64))
    tx.versions.set_state(tx.versions.next_number() - 1, state)


def test_settings_of_a_retry_count_for_its_episode_alone(store, project):
    """They are read when the import begins, the person's over those of the file, and not for the episode after it."""
    with store.writing() as tx:
        tx.domains.set_state(2, DomainState.REFUSED, "strange")
    wanted = ["training.epochs=3", "method.name=grcl"]
    assert retry(store, "camera", project.settings, wanted).endswith("with training.epochs=3, method.name=grcl")
    (project.root / "adaptd.toml").write_text("[training]\nseed = 7\n")
    with store.writing() as tx:
        domain = tx.domains.get(2)
        assert hash(domain), "episodes keep domains in sets"
        assert (domain.state, read_next_jobs(tx).jobs[0].domain) == (DomainState.SETTLED, "camera")
        settings = resolve_retry(project, tx, domain).settings
        assert (settings.training.epochs, settings.training.seed, settings.method.name) == (3, 7, "grcl")
        tx.episodes.add(NewEpisode(2, "grcl", 0, {}, "0" * 64))
        assert resolve_retry(project, tx, domain) is project
    (project.root / "adaptd.toml").write_text("[training]\nseeds = 7\n")
    with store.reading() as tx, pytest.raises(ConfigError, match="did you mean seed"):
        newest = tx.episodes.find_newest(2)
        resolve_retry(project, tx, replace(domain, retry={"after": newest.id, "set": []}))


def test_a_rejected_domain_is_read_as_such_until_its_version_is_promoted(store, project):
    """Whatever is stored; its next drop is imported, and the reason stays until then."""
    with store.writing() as tx:
        tx.drops.take_in([1], 1)
        commit(tx, 2, VersionState.REJECTED)
        tx.domains.set_state(2, DomainState.DONE, "version 2 was rejected: it fell")
        assert [domain.state for domain in tx.domains.list_all()] == [DomainState.DONE, DomainState.REJECTED]
        assert read_next_jobs(tx).jobs == ()
        tx.drops.add(NewDrop(2, 2, "domains/2/2", "camera", "1" * 64, 3, 9))
        assert read_next_jobs(tx).jobs[0].domain == "camera"
        tx.versions.set_state(2, VersionState.PROMOTED)
        assert tx.domains.get(2).state is DomainState.DONE
        tx.versions.set_state(2, VersionState.REJECTED)
        tx.drops.take_in([2], 0)
    assert retry(store, "camera", project.settings, ["training.epochs=3"]).startswith("camera gets another episode by guarded")
    with store.reading() as tx:
        assert (tx.domains.get(2).state, tx.episodes.find_unfinished(2).delivery) == (DomainState.QUEUED, 1)
    with pytest.raises(EpisodeError, match="camera is queued: only a domain that is at rest"):
        retry(store, "camera", project.settings)


def test_a_forgotten_domain_is_learned_from_its_originals_again(store, project):
    """All of its drops wait then, whatever came of them; without originals it is said."""
    with store.writing() as tx:
        tx.drops.take_in([1], 1)
        commit(tx, 2)
        tx.domains.forget(2, tx.episodes.find_newest(2).id)
        tx.domains.set_state(2, DomainState.SKIPPED, "forgotten")
    assert "from its images on" in retry(store, "camera", project.settings)
    with store.writing() as tx:
        assert [drop.number for drop in tx.drops.list_waiting(2)] == [1]
        tx.drops.forget_originals(1, 1)
        tx.domains.set_state(2, DomainState.SKIPPED, "forgotten")
    with pytest.raises(EpisodeError, match="none of its originals is kept"):
        retry(store, "camera", project.settings)


def test_a_drain_tells_what_came_to_nothing_meanwhile(store):
    """Not what had before it began, unless it did so again."""
    with store.writing() as tx:
        tx.drops.take_in([1], 1)
        tx.domains.set_state(2, DomainState.FAILED, "it broke")
        before = find_ended(tx)
        assert list_failures(tx, before) == []
        assert list_failures(tx, {}) == ["camera failed: it broke"]
        commit(tx, 2, VersionState.REJECTED)
        tx.domains.set_state(2, DomainState.DONE, "version 2 was rejected: it fell")
        assert list_failures(tx, before) == ["camera: version 2 was rejected: it fell"]
