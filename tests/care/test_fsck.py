"""`adaptd fsck`: a clean project is clean, and whatever is broken on purpose is found, named, and comes with a repair."""

import fcntl
import hashlib
import json
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest

from adaptd.care.fsck import check_project
from adaptd.project.lock import hold_project


def alter(kept, statement: str) -> None:
    """Change the database behind the store's back."""
    with closing(sqlite3.connect(kept.state / "adaptd.db")) as database, database:
        database.execute("PRAGMA foreign_keys=OFF")
        database.execute(statement)


def remove(path) -> None:
    """A file or a folder."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def touch(path) -> None:
    """A file that nobody knows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"stray")


def flip(path) -> None:
    """One byte of a file becomes another."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_clean_is_clean(kept, adaptd):
    """Nothing is found, quickly or deeply, and the exit code and both outputs say so."""
    assert check_project(kept.project) == ()
    run = adaptd("--project", kept.root, "fsck")
    assert (run.returncode, run.stdout) == (0, "clean\n")
    run = adaptd("--project", kept.root, "fsck", "--deep", "--json")
    assert (run.returncode, json.loads(run.stdout)) == (0, {"schema": "adaptd.fsck/1", "clean": True, "findings": []})


def test_a_project_that_learned_is_clean(adapted_shop):
    """What the real commands leave holds."""
    assert adapted_shop.does("fsck", "--deep").stdout == "clean\n"


def test_a_project_without_anything_is_clean(empty_shop):
    """Nothing has to be there."""
    assert empty_shop.does("fsck", "--deep").stdout == "clean\n"


def lose_bytes(kept, path):
    """As a power cut may: nobody wrote to it after it was imported."""
    path.write_bytes(b"")
    alter(kept, "UPDATE drops SET claimed_at = '2099-01-01 00:00:00.000000'")


BREAKS = {
    "an original is lost": ("I1", "holds 2 files, not 3", lambda k: remove(k.drop / "b.png")),
    "an original was renamed": ("I1", "b.png of delivery 1: in no drop", lambda k: (k.drop / "b.png").rename(k.drop / "c.png")),
    "a whole drop is lost": ("I1", "drop 1 of night", lambda k: remove(k.drop)),
    "a waiting drop is lost": ("I1", "drop 2 of night", lambda k: remove(k.drop.parent / "2")),
    "an original is cut": ("I1", "b.png of delivery 1: not as large", lambda k: lose_bytes(k, k.drop / "b.png")),
    "a file came late": ("I1", "x.png: written after it was imported", lambda k: touch(k.drop / "x.png")),
    "a temporary file came late": ("I1", ".x.png.part: written after", lambda k: touch(k.drop / ".x.png.part")),
    "a folder among the drops": ("I1", "domains/2/7: the store does not know it", lambda k: touch(k.drop.parent / "7" / "x")),
    "a quarantined file is lost": ("I1", "notes.txt of night is gone", lambda k: remove(k.quarantined)),
    "a stray in quarantine": ("I1", "quarantine/x.png: the store does not", lambda k: touch(k.state / "quarantine" / "x.png")),
    "a cache is lost": ("I1", "there is no cache", lambda k: remove(k.state / "cache" / "2-1-train")),
    "a cache is cut": ("I1", "pixels.u8 has", lambda k: (k.state / "cache" / "1-1-test" / "pixels.u8").write_bytes(b"")),
    "a cache lacks a row": ("I1", "night, delivery 1", lambda k: alter(k, "UPDATE images SET id = 99 WHERE name = 'b.png'")),
    "a memory is lost": ("I1", "the memory of night", lambda k: remove(k.state / "memory" / "2-2")),
    "a claim is cut short": ("I1", "may still be there too", lambda k: touch(k.drop.parent / ".claimed-3.json")),
    "a count is wrong": (
        "I2",
        "night: counts 9 images, but has 2",
        lambda k: alter(k, "UPDATE domains SET images = 9 WHERE id = 2"),
    ),
    "a model is damaged": ("I3", "model.onnx is not the file", lambda k: flip(k.model / "model.onnx")),
    "a model is lost": ("I3", "wrong: model.onnx", lambda k: remove(k.model / "model.onnx")),
    "a card is lost": ("I3", "wrong: card.json", lambda k: remove(k.model / "card.json")),
    "a card was changed": ("I3", "card.json is damaged", lambda k: (k.model / "card.json").write_text("{")),
    "something beside the versions": ("I3", "Triton takes it for version 3", lambda k: touch(k.model.parent / "3.tmp" / "x")),
    "a model nobody promoted": ("I3", "shop/3 is of no promoted", lambda k: touch(k.model.parent / "3" / "model.onnx")),
    "a fork in the chain": ("I3", "version 2 follows version none", lambda k: alter(k, "UPDATE versions SET parent = NULL")),
    "a version too early": (
        "I3",
        "episode 2, which is not committed",
        lambda k: alter(k, "UPDATE episodes SET state = 'training', number = NULL WHERE id = 2"),
    ),
    "R lacks an entry": (
        "I4",
        "R[1] lacks its entry for night",
        lambda k: alter(k, "DELETE FROM accuracies WHERE version = 2 AND domain_id = 2"),
    ),
    "R lacks a row": ("I4", "R has no row 1", lambda k: alter(k, "UPDATE episodes SET number = 5 WHERE id = 2")),
    "a column is out of order": ("I4", "columns of R", lambda k: alter(k, "UPDATE domains SET position = 4 WHERE id = 2")),
    "a measurement was changed": (
        "I4",
        "version 1 on source: measured 0.8, but 3 of 4",
        lambda k: alter(k, "UPDATE accuracies SET value = 0.8 WHERE version = 1 AND kind = 'measured'"),
    ),
    "a reference leads nowhere": ("I5", "row", lambda k: alter(k, "UPDATE events SET episode_id = 99 WHERE id = 1")),
    "weights are damaged": ("I6", "version 1: the weights", lambda k: flip(k.state / "weights" / "episode-1.safetensors")),
    "weights are lost": ("I6", "are missing", lambda k: remove(k.state / "weights" / "episode-2.safetensors")),
    "an unfinished cache": ("I7", ".unfinished-1", lambda k: touch(k.state / "cache" / ".unfinished-1" / "pixels.u8")),
    "a cache that was never committed": ("I7", "cache/2-9-train", lambda k: touch(k.state / "cache" / "2-9-train" / "pixels.u8")),
    "unfinished weights": ("I7", ".episode-3", lambda k: touch(k.state / "weights" / ".episode-3.safetensors")),
    "a checkpoint without a row": ("I7", "checkpoints/2", lambda k: touch(k.state / "checkpoints" / "2" / "5" / "facts.json")),
    "unfinished check models": ("I7", ".2-ab", lambda k: touch(k.state / "checks" / ".2-ab-cd.safetensors")),
    "damaged check models": ("I7", "that are damaged", lambda k: touch(k.state / "checks" / "2-ab-cd.safetensors")),
    "a staged version": ("I7", "staging/shop/3", lambda k: touch(k.state / "staging" / "shop" / "3" / "x")),
    "a claim half copied": ("I7", ".claiming-3", lambda k: touch(k.drop.parent / ".claiming-3" / "x.png")),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_found(kept, name):
    """The invariant is named, the fact says what, and there is something to do about it."""
    invariant, what, breaking = BREAKS[name]
    breaking(kept)
    findings = check_project(kept.project)
    mine = [finding for finding in findings if finding.invariant == invariant and what in finding.what]
    assert len(mine) == 1, findings
    assert mine[0].repair


def test_an_image_twice_in_a_domain(kept):
    """I2 is also looked for where the database lost the index that forbids it."""
    from adaptd.care.images import check_duplicates
    from adaptd.care.view import View

    with kept.store() as store, store.reading() as tx:
        view = View.read(tx)
    view.images[2] += view.images[2][:1]
    assert "is there 2 times" in next(check_duplicates(view)).what


def test_a_damaged_database_is_a_finding(kept, adaptd):
    """No traceback: I5 is told, and the exit code is 1."""
    file = kept.state / "adaptd.db"
    content = bytearray(file.read_bytes())
    content[4096 * 3 : 4096 * 12] = b"\xaa" * (4096 * 9)
    file.write_bytes(content)
    run = adaptd("--project", kept.root, "fsck", "--json")
    document = json.loads(run.stdout)
    assert (run.returncode, document["clean"], document["findings"][0]["invariant"]) == (1, False, "I5")


def test_a_model_that_cannot_be_run(kept):
    """Its hash is that of the store and its card, but ONNX Runtime has to load it too."""
    from adaptd.publishing.card import Card, read_card

    (kept.model / "model.onnx").write_bytes(b"no model")
    digest = hashlib.sha256(b"no model").hexdigest()
    card = Card(**read_card(kept.model).model_dump() | {"model_sha256": digest})
    (kept.model / "card.json").write_text(card.to_text())
    alter(kept, f"UPDATE versions SET model_sha256 = '{digest}' WHERE version = 2")
    assert ["ONNX Runtime cannot load" in finding.what for finding in check_project(kept.project)] == [True]


def test_deep_reads_every_byte(kept):
    """A flipped byte of an original or of a cache is found deeply, and only so."""
    flip(kept.drop / "b.png")
    flip(kept.state / "cache" / "2-1-train" / "pixels.u8")
    assert check_project(kept.project) == ()
    told = []
    facts = [finding.what for finding in check_project(kept.project, lambda done, total: told.append((done, total)))]
    assert ["b.png of delivery 1: not the bytes" in facts[0], "1 images" in facts[1], len(facts)] == [True, True, 2]
    assert all(done <= total for done, total in told)


def test_the_command_lists_and_counts(kept, adaptd):
    """A person reads the fact, the repair and the number; odd names are shown as escapes."""
    touch(kept.state / "quarantine" / "night" / "[red]\n\u202egnp.exe")
    run = adaptd("--project", kept.root, "fsck")
    assert run.returncode == 1
    assert "[red]\\n\\u202egnp.exe: the store does not know it\n    → move it" in run.stdout
    assert run.stdout.splitlines()[-1] == "1 finding"


class TestInMotion:
    def test_a_claim_that_has_not_begun(self, kept):
        """The row comes first: a waiting drop that is still in the inbox is in one place."""
        (kept.drop.parent / "2").rename(kept.root / "inbox" / "night")
        assert check_project(kept.project) == ()

    def test_a_file_on_its_way_into_quarantine(self, kept):
        """Its row has no path yet: it may be in the drop or already moved."""
        alter(kept, "UPDATE quarantine SET path = NULL WHERE drop_id = 1")
        assert check_project(kept.project) == ()
        kept.quarantined.rename(kept.drop / "notes.txt")
        assert check_project(kept.project) == ()
        remove(kept.drop / "notes.txt")
        assert [finding.invariant for finding in check_project(kept.project)] == ["I1"]

    def test_a_version_that_waits_to_be_published(self, kept):
        """The row comes first: what is whole in staging is no finding and no leftover; without it the model is missed."""
        staged = kept.state / "staging" / "shop" / "2"
        kept.model.rename(staged)
        assert check_project(kept.project) == ()
        remove(staged)
        assert [finding.invariant for finding in check_project(kept.project)] == ["I3"]

    def test_leftovers_are_none_while_somebody_works(self, kept):
        """What a living process is at is not stray."""
        touch(kept.state / "cache" / ".unfinished-1" / "pixels.u8")
        with hold_project(kept.state, "run"):
            assert check_project(kept.project) == ()

    def test_what_arrives_meanwhile_is_no_finding(self, kept):
        """While somebody works, only what is still wrong after a pause is told."""
        home = kept.drop / "b.png"
        content = home.read_bytes()
        remove(home)
        remove(kept.quarantined)
        with hold_project(kept.state, "run"):
            facts = check_project(kept.project, pause=lambda _: home.write_bytes(content))
        assert ["notes.txt of night is gone" in finding.what for finding in facts] == [True]

    def test_a_drop_that_is_read_in_place(self, kept):
        """Its files are the user's once it was imported; while it waits, it must be there."""
        alter(kept, f"UPDATE drops SET path = '{kept.root}/elsewhere' WHERE number = 2")
        remove(kept.drop.parent / "2")
        assert "wait to be read" in check_project(kept.project)[0].what
        alter(kept, "UPDATE drops SET delivery = 0 WHERE number = 2")
        assert check_project(kept.project) == ()


def test_nothing_is_written(kept, adaptd):
    """A check changes no file and takes no lock."""
    before = {path: path.stat().st_mtime_ns for path in kept.root.rglob("*") if path.is_file() and "adaptd.db-" not in path.name}
    (kept.state / "daemon.lock").write_text("4711 run")
    with (kept.state / "daemon.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert adaptd("--project", kept.root, "fsck").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_locked_database_does_not_matter(kept):
    """Another writer in the middle of its transaction keeps nobody from checking."""
    with kept.store() as store, store.writing() as tx:
        tx.events.add("x", "y")
        findings = []
        thread = threading.Thread(target=lambda: findings.append(check_project(kept.project)))
        thread.start()
        thread.join(60)
    assert findings == [()]
