"""`adaptd forget`: what goes, what stays, what is refused, and kills at six of the calls that make something last."""

import shutil
import signal
from pathlib import Path

import pytest

from adaptd.care.fsck import check_project
from adaptd.errors import EpisodeError
from adaptd.project.lock import hold_project
from adaptd.records import DomainState, EpisodeState, VersionState
from adaptd.releases.forgetting import forget_domain, look_ahead
from adaptd.releases.lineage import find_learned, find_undone
from adaptd.releases.matrix import MatrixKeeper, read_matrix
from adaptd.store import NewEpisode, NewVersion
from tests.tracing import run_with_fault

from .conftest import Kept

LEFT = {"I7"}
"""What a kill may leave: pixels that the next start removes."""


@pytest.fixture
def resting(kept: Kept) -> Kept:
    """The project with a domain at rest: no drop of it waits."""
    with kept.store() as store, store.writing() as tx:
        tx.drops.remove(2)
    shutil.rmtree(kept.state / "domains" / "2" / "2")
    assert check_project(kept.project) == ()
    return kept


def counts(kept: Kept) -> tuple[int, ...]:
    """Images, memories and labels of the domain."""
    with kept.store() as store, store.reading() as tx:
        return len(tx.images.list_for(2)), len(tx.memories.list_for(2)), len(tx.labels.list_for(2)), tx.domains.get(2).images


def test_what_goes_and_what_stays(resting, adaptd):
    """Memory, labels, images and pixels go; R's column, versions, originals and quarantine stay, and it is said."""
    kept = resting
    with kept.store() as store, store.writing() as tx:
        tx.labels.give(2, {tx.images.list_for(2)[0].id: "a"})
        matrices = MatrixKeeper()
        before = matrices.read(tx)
    run = adaptd("--project", kept.root, "forget", "night")
    assert (run.returncode, "give --yes to forget night" in run.stderr, counts(kept)) == (1, True, (2, 1, 1, 2))
    run = adaptd("--project", kept.root, "forget", "night", "--yes")
    assert run.returncode == 0, run.stderr
    for said in (
        "2 images, 1 of them in memory, 1 label that",
        "stay as they are: 2. Version 2 is served; `adaptd rollback 1`",
        "R keeps its column as history, up to row 1",
        "`adaptd quarantine purge --domain night`",
        "`adaptd retry night` learns from its originals again",
    ):
        assert said in run.stdout
    assert counts(kept) == (0, 0, 0, 0)
    assert check_project(kept.project) == ()
    assert {path.name for path in kept.drop.iterdir()} == {"a.png", "b.png", "twin.png", ".DS_Store"}
    assert kept.quarantined.exists()
    assert list((kept.state / "cache").glob("2-*")) + list((kept.state / "memory").iterdir()) == []
    with kept.store() as store, store.reading() as tx:
        after = matrices.read(tx)
        assert (after.rows, after.forgotten) == (before.rows, {"night"})
        assert tx.domains.get(2).state is DomainState.SKIPPED
    run = adaptd("--project", kept.root, "forget", "night", "--yes")
    assert (run.returncode, "forgotten already" in run.stderr) == (1, True)
    with kept.store() as store, store.writing() as tx:
        tx.domains.set_state(2, DomainState.REFUSED, "tried again, and refused")
    run = adaptd("--project", kept.root, "forget", "night", "--yes")
    assert (run.returncode, "night is forgotten" in run.stdout) == (0, True), run.stderr


def test_with_its_originals(resting, adaptd):
    """They go too; a file that no import has seen stays, and so does everything of other domains."""
    kept = resting
    (kept.drop / "late.png").write_bytes(b"late")
    run = adaptd("--project", kept.root, "forget", "night", "--yes", "--originals")
    assert (run.returncode, "files that no import has seen" in run.stderr) == (1, True)
    assert (kept.drop / "late.png").exists()
    (kept.drop / "late.png").unlink()
    with hold_project(kept.state, "run"):
        run = adaptd("--project", kept.root, "forget", "night", "--yes", "--originals")
        assert (run.returncode, "adaptd run" in run.stderr) == (1, True)


def test_originals_go(resting, adaptd):
    """Files of the drop, and its folder; the quarantined file stays."""
    kept = resting
    source = sorted((kept.state / "cache").glob("1-*"))
    run = adaptd("--project", kept.root, "forget", "night", "--yes", "--originals")
    assert run.returncode == 0, run.stderr
    assert "drop its images to learn again" in run.stdout
    assert not kept.drop.exists()
    assert kept.quarantined.exists()
    assert sorted((kept.state / "cache").glob("1-*")) == source
    assert check_project(kept.project) == ()


def test_what_cannot_be_forgotten(kept):
    """The source, a domain whose drops wait or whose episode is open, and any while another episode works with its memory."""
    with kept.store() as store:

        def refusal(name: str) -> str:
            with pytest.raises(EpisodeError) as problem:
                forget_domain(store, kept.state, name)
            return str(problem.value)

        assert "every episode learns from it" in refusal("source")
        assert "has drops that wait: `adaptd cancel night`" in refusal("night")
        with store.writing() as tx:
            tx.domains.set_state(2, DomainState.FAILED)
            other = tx.domains.add("dusk", DomainState.TRAINING)
            episode = tx.episodes.add(NewEpisode(other.id, "grcl", 0, {}, "0" * 64))
            tx.episodes.lease(episode.id, "worker", "boot", 1.0)
            tx.checkpoints.add(episode.id, 5, "checkpoints/3/5", "0" * 64)
        assert "dusk is training: `adaptd cancel dusk`" in refusal("dusk")
        with hold_project(kept.state, "run"):
            assert "an episode on dusk is at work" in refusal("night")
        # Nobody is at work: the lease is a dead worker's, and its episode begins anew.
        assert "is forgotten" in forget_domain(store, kept.state, "night")
        with store.reading() as tx:
            assert tx.checkpoints.list_for(episode.id) == ()
            assert tx.episodes.get(episode.id).state is EpisodeState.TRAINING


def test_drops_of_a_failed_delivery_do_not_come_along(resting):
    """Forgotten, they wait for nobody: the next drop of that name is a delivery of its own."""
    with resting.store() as store:
        with store.writing() as tx:
            tx.drops.take_in([1], 2)
            tx.domains.set_state(2, DomainState.FAILED)
        forget_domain(store, resting.state, "night")
        with store.writing() as tx:
            assert tx.drops.give_back(2, tx.episodes.last_delivery(2) + 1) == 0


def test_versions_that_learned_and_memories_of_what_was_undone(resting):
    """By the weights that a version began with, not by who was promoted before it."""
    with resting.store() as store, store.writing() as tx:
        domain = tx.domains.add("dusk", DomainState.DONE)
        episode = tx.episodes.add(NewEpisode(domain.id, "grcl", 0, {}, "0" * 64))
        lease = tx.episodes.lease(episode.id, "worker", "boot", 1.0)
        tx.versions.add(NewVersion(2, 1, ("a", "b"), "w", "0" * 64, restores=1))
        tx.versions.set_state(3, VersionState.PROMOTED)
        assert find_undone(tx.versions.list_all(), tx.episodes.list_all()) == (2,)
        tx.episodes.set_base(episode.id, lease, 3)
        tx.episodes.commit(episode.id, lease, {})
        tx.versions.add(NewVersion(3, episode.id, ("a", "b"), "w2", "1" * 64))
        tx.versions.set_state(4, VersionState.PROMOTED)
        versions, episodes = tx.versions.list_all(), tx.episodes.list_all()
        assert find_learned(versions, episodes, 2) == (2,)
        assert find_learned(versions, episodes, domain.id) == (4,)
        assert find_learned(versions, episodes, 1) == (1, 2, 3, 4)
        prospect = look_ahead(tx, resting.state, "night")
        assert (prospect.learned, prospect.served) == ((2,), None)
        assert read_matrix(tx).forgotten == frozenset()


@pytest.mark.parametrize(("call", "nths"), [("pwrite64", (3, 12)), ("unlinkat,unlink,rmdir", (1, 4, 7)), ("fdatasync", (2,))])
def test_killed_anywhere(resting, zygote, tmp_path, call, nths):
    """At a few sampled calls: nothing but pixels is left over, nothing else is gone, and the same command ends the same."""
    codes = []
    for nth in nths:
        kept = Kept(tmp_path / f"{call}-{nth}" / "shop")
        shutil.copytree(resting.root, kept.root)
        codes.append(run_killed(kept, zygote, call, nth))
        assert {finding.invariant for finding in check_project(kept.project)} <= LEFT
        words = ("--project", kept.root, "forget", "night", "--yes", "--originals")
        again = zygote.start(*words, settings={}).wait()
        assert again.returncode == 0, again.stderr
        assert (check_project(kept.project), kept.drop.exists()) == ((), False)
        assert counts(kept) == (0, 0, 0, 0)
        assert kept.quarantined.exists()
        assert len(list((kept.state / "cache").glob("1-*"))) == 3
    assert codes == [-signal.SIGKILL] * len(nths)


def run_killed(kept: Kept, zygote, call: str, nth: int) -> int:
    """The command, killed as it enters one of these calls for the nth time; its exit code."""
    words = ("--project", kept.root, "forget", "night", "--yes", "--originals")
    process = zygote.start(*words, settings={}, stopped=True)
    return run_with_fault(process, call, f"signal=SIGKILL:when={nth}", Path("/dev/null"))
