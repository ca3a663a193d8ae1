"""`adaptd gc`: shows what may be deleted and why, asks, deletes that and nothing else, and fsck stays clean."""

import json
import os
import shutil

import pytest

from adaptd.care.fsck import check_project
from adaptd.care.gc import Kind, Wish, _remove_seen, delete, plan, size
from adaptd.care.view import View
from adaptd.intake.tree import read_files
from adaptd.project.lock import hold_project
from adaptd.records import DomainState, EpisodeState, ImageState, NewImage, VersionState
from adaptd.store import NewDrop, NewEpisode, NewVersion


def planned(kept, **wishes) -> tuple:
    """What gc would delete."""
    with kept.store() as store, store.reading() as tx:
        return plan(View.read(tx), kept.project, Wish(**wishes))


def collect(kept, **wishes) -> tuple:
    """Delete it."""
    deletables = planned(kept, **wishes)
    with kept.store() as store:
        delete(store, deletables)
    return deletables


def tree(folder) -> set[str]:
    """Every path below, but those that SQLite and the lock make."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {path for path in found if not path.startswith(("adaptd.db", "daemon.lock"))}


def test_nothing_to_delete(kept, adaptd):
    """A tidy project loses nothing, whatever is answered."""
    before = tree(kept.state)
    run = adaptd("--project", kept.root, "gc", "--yes")
    assert (run.returncode, run.stdout) == (0, "nothing to delete\n")
    assert tree(kept.state) == before


def test_leftovers_and_old_backups(kept, adaptd):
    """They go without being asked for; the newest five copies of the database stay."""
    before = tree(kept.state)
    (kept.state / "cache" / ".unfinished-1").mkdir()
    (kept.state / "cache" / ".unfinished-1" / "pixels.u8").write_bytes(b"x" * 100_000)
    (kept.state / "staging" / "shop" / "7").mkdir(parents=True)
    names = [f"adaptd-{revision}-20260101T00000{n}000000Z.db" for n, revision in enumerate(["0002", "0001"] * 3 + ["0001"])]
    for name in names:
        (kept.state / "backups" / name).write_bytes(b"x")
    document = json.loads(adaptd("--project", kept.root, "gc", "--dry-run", "--json").stdout)
    assert (document["schema"], document["size_bytes"] >= 100_000) == ("adaptd.gc/1", True)
    assert [item["kind"] for item in document["candidates"]] == ["leftover", "leftover", "backup", "backup"]
    run = adaptd("--project", kept.root, "gc", "--yes")
    assert (run.returncode, "freed" in run.stderr) == (0, True)
    assert tree(kept.state) == before | {f"backups/{name}" for name in names[2:]}


@pytest.mark.parametrize("words", [["--dry-run"], []])
def test_without_a_yes_nothing_goes(kept, adaptd, words):
    """A dry run only shows; without a terminal to ask at, --yes is needed."""
    stray = kept.state / "staging" / "shop" / "7"
    stray.mkdir(parents=True)
    run = adaptd("--project", kept.root, "gc", *words)
    assert (run.returncode, stray.exists()) == (0 if words else 1, True)
    assert "staging/shop/7" in run.stdout
    assert ("give --yes" in run.stderr) is not bool(words)


def test_not_while_the_daemon_works(kept, adaptd):
    """Deleting is refused by name of who works; a dry run is not."""
    with hold_project(kept.state, "run"):
        run = adaptd("--project", kept.root, "gc", "--yes")
        assert (run.returncode, "adaptd run" in run.stderr) == (1, True)
        assert adaptd("--project", kept.root, "gc", "--dry-run").returncode == 0


class TestOriginals:
    def test_only_when_asked_for(self, kept):
        """Those of finished deliveries go, waiting ones stay; images say so, and caches and quarantine stay."""
        assert planned(kept) == ()
        (deletable,) = collect(kept, originals=True)
        assert (deletable.kind, deletable.paths) == (Kind.ORIGINALS, (kept.drop,))
        assert (kept.drop.exists(), (kept.drop.parent / "2").exists(), kept.quarantined.exists()) == (False, True, True)
        with kept.store() as store, store.reading() as tx:
            assert {image.state for image in tx.images.list_for(2)} == {ImageState.REMOVED}
            assert tx.drops.get(1).accepted == 2
            assert tx.events.list_latest(1, 2)[0].kind == "files-deleted"
        assert check_project(kept.project, lambda *_: None) == ()
        assert planned(kept, originals=True) == ()

    def test_killed_in_between(self, kept):
        """The rows went first: half a folder is no finding, and the next run deletes the rest."""
        with kept.store() as store, store.writing() as tx:
            tx.drops.forget_originals(1, 1)
            tx.images.forget_originals(2, 1)
        (kept.drop / "a.png").unlink()
        assert check_project(kept.project) == ()
        collect(kept, originals=True)
        assert not kept.drop.exists()

    def test_a_drop_read_in_place_is_the_users(self, kept):
        """Nothing outside of the state folder is ever offered."""
        elsewhere = kept.root / "elsewhere"
        shutil.move(kept.drop, elsewhere)
        with kept.store() as store, store.writing() as tx:
            drop = tx.drops.add(NewDrop(2, 9, str(elsewhere), "night", "0" * 64, 3, 3))
            tx.drops.take_in([drop.id], 1)
        assert planned(kept, originals=True) == ()

    def test_the_oldest_go_for_the_budget(self, kept):
        """Just enough of them, oldest first; without need none."""
        (kept.drop / ".DS_Store").write_bytes(b"x" * 5_000_000)
        folder = kept.state / "domains" / "2" / "3"
        folder.mkdir()
        (folder / "z.png").write_bytes(b"z" * 5_000_000)
        with kept.store() as store, store.writing() as tx:
            tx.drops.add(NewDrop(2, 3, "domains/2/3", "night", "0" * 64, 1, 5_000_000))
            tx.drops.take_in([3], 0)
            tx.drops.count(3, accepted=0, duplicates=1)
        # An open database takes a little more than a closed one.
        total = size(kept.state)
        assert planned(kept, budget_bytes=total + 1_000_000) == ()
        assert [c.paths for c in planned(kept, budget_bytes=total - 1_000_000)] == [(kept.drop,)]
        assert len(planned(kept, budget_bytes=total - 6_000_000)) == 2
        collect(kept, budget_bytes=1)
        assert not kept.drop.exists()
        assert check_project(kept.project) == ()

    def test_the_budget_is_a_setting(self, kept, adaptd):
        """`retention.state_bytes` counts where --budget is not given."""
        for words, env in ((["--budget", "1"], {}), ([], {"ADAPTD_RETENTION__STATE_BYTES": "1"})):
            run = adaptd("--project", kept.root, "gc", "--dry-run", "--json", *words, env=env)
            assert [item["kind"] for item in json.loads(run.stdout)["candidates"]] == ["originals"]


def test_what_failed_goes_only_when_asked_for(kept):
    """Originals, rows and caches of a failed domain; then nothing of it waits, and fsck is clean."""
    with kept.store() as store, store.writing() as tx:
        domain = tx.domains.add("fog", DomainState.FAILED)
        folder = kept.state / "domains" / str(domain.id) / "1"
        folder.mkdir(parents=True)
        (folder / "f.png").write_bytes(b"f")
        tx.images.add_many(domain.id, [NewImage("f" * 64, 1, "f.png")])
        cache = kept.state / "cache" / f"{domain.id}-1-train"
        cache.mkdir()
        drop = tx.drops.add(NewDrop(domain.id, 1, f"domains/{domain.id}/1", "fog", "0" * 64, 1, 1))
        tx.drops.take_in([drop.id], 1)
        tx.drops.count(drop.id, accepted=1, duplicates=0)
        episode = tx.episodes.add(NewEpisode(domain.id, "grcl", 0, {}, "0" * 64))
        tx.episodes.give_up(episode.id, "killed three times")
        assert tx.episodes.get(episode.id).state is EpisodeState.FAILED
    assert planned(kept, originals=True)[0].paths == (kept.drop,)
    (deletable,) = collect(kept, failed=True)
    assert (deletable.kind, folder.exists(), cache.exists()) == (Kind.FAILED, False, False)
    with kept.store() as store, store.reading() as tx:
        fog = tx.domains.find("fog")
        assert (fog.state, fog.images, tx.drops.list_waiting(fog.id)) == (DomainState.SKIPPED, 0, ())
    assert check_project(kept.project) == ()


def test_weights_of_rejected_versions(kept):
    """Those before the promoted one go when asked for; what is promoted, or what another version is made of, stays."""
    with kept.store() as store, store.writing() as tx:
        for number, state in ((3, VersionState.REJECTED), (4, VersionState.REJECTED), (5, VersionState.PROMOTED)):
            weights = kept.state / "weights" / f"episode-{number}.safetensors"
            weights.write_bytes(b"w")
            digest = "50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326"
            restores = 4 if number == 5 else None
            tx.versions.add(NewVersion(2, 2, ("a", "b"), f"weights/{weights.name}", digest, restores))
            tx.versions.set_state(number, state)
    assert planned(kept) == ()
    (deletable,) = collect(kept, rejected=True)
    assert (deletable.kind, [path.name for path in deletable.paths]) == (Kind.REJECTED, ["episode-3.safetensors"])
    assert [finding for finding in check_project(kept.project) if "weights" in finding.what] == []


def test_a_folder_that_becomes_a_link_leads_nowhere(kept, tmp_path):
    """Whoever dropped it may still write in it: between the look and the deletion a sub-folder is swapped."""
    home, drop = tmp_path / "home", kept.drop
    (drop / "sub").mkdir()
    home.mkdir()
    for folder in (home, drop / "sub"):
        (folder / "b.png").write_bytes(b"b")
        (folder / "_READY").touch()
        os.utime(folder / "b.png", (1, 1))
    seen = read_files(drop)
    (drop / "sub").rename(drop / "away")
    (drop / "sub").symlink_to(home)
    _remove_seen(drop, seen)
    assert {path.name for path in home.iterdir()} == {"b.png", "_READY"}
    assert sorted(path.name for path in drop.iterdir()) == ["away", "sub"]


@pytest.mark.parametrize(("drop", "name", "depth"), [(1, "d", 102), (2, "d" * 200, 25)], ids=["imported", "waiting"])
def test_an_unreadable_drop_is_told_and_left(kept, drop, name, depth):
    """A tree too deep to be walked, or with paths too long to be opened: fsck says so, and gc passes over it."""
    deep = os.open(kept.drop.parent / str(drop), os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=deep)
        deeper = os.open(name, os.O_DIRECTORY, dir_fd=deep)
        os.close(deep)
        deep = deeper
    os.close(deep)
    findings = check_project(kept.project)
    assert [finding.repair for finding in findings] == ["make all of it readable for adaptd"]
    with kept.store() as store, store.reading() as tx:
        deletable = plan(View.read(tx), kept.project, Wish(originals=True))
        assert kept.drop.parent / str(drop) not in {path for each in deletable for path in each.paths}
