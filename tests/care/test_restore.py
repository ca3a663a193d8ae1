"""`adaptd quarantine`: quarantined files are listed, given back or deleted; killed anywhere, nothing is lost or in two places."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from adaptd import beneath, files
from adaptd.care import restore as restoring
from adaptd.care.fsck import check_project
from adaptd.care.images import check_drops, check_duplicates, check_quarantine
from adaptd.care.view import View
from adaptd.project.layout import Layout

THEIRS, OURS = 1, 2
"""The rows: of a file in a user's folder, and of one that was moved into quarantine."""


CHANGING = {"_take_out", "_move", "_bring", "_remove_empty", "rename", "remove"}
"""The functions that change something: before and between them a kill is as good as never having begun."""


def items(kept) -> dict:
    """What is in quarantine, by id."""
    with kept.store() as store, store.reading() as tx:
        return {item.id: item for item in tx.quarantine.list_all()}


def places(kept) -> list[Path]:
    """Where the quarantined file is, anywhere in the project."""
    return sorted(path for path in kept.root.rglob("*") if path.is_file() and path.read_bytes() == b"notes")


def give_back(kept) -> None:
    """Restore the file, after finishing what was begun."""
    with kept.store() as store:
        restoring.finish_interrupted(store, Layout(kept.state), kept.root / "inbox")
        chosen = [item for item in items(kept).values() if restoring.find_obstacle(item) is None]
        restoring.give_back(store, Layout(kept.state), kept.root / "inbox", chosen)


def delete(kept) -> None:
    """Purge it, likewise."""
    with kept.store() as store:
        restoring.finish_interrupted(store, Layout(kept.state), kept.root / "inbox")
        chosen = [item for item in items(kept).values() if restoring.find_obstacle(item) is None]
        restoring.delete(store, Layout(kept.state), chosen)


def killed_at(line: int, work, kept) -> bool:
    """Do the work in a process that kills itself at the n-th line that counts; whether it came to that."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == signal.SIGKILL
    left = line

    def trace(frame, event, _):
        nonlocal left
        if (
            frame.f_code.co_filename not in {restoring.__file__, files.__file__, beneath.__file__}
            or frame.f_code.co_name not in CHANGING
        ):
            return None
        if event == "line":
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    try:
        work(kept)
    finally:
        os._exit(0)


def findings(kept) -> list:
    """What fsck says about images and quarantine; the rest of it takes longer and is not touched here."""
    with kept.store() as store, store.reading() as tx:
        view, layout = View.read(tx), Layout(kept.state)
    return [*check_drops(view, layout, kept.root / "inbox"), *check_quarantine(view, layout), *check_duplicates(view)]


class TestKilled:
    def test_a_restore(self, kept):
        """At every line: the file is in exactly one place, fsck is clean, and going on brings it into the inbox."""
        target, line = kept.root / "inbox" / "night" / "notes.txt", 1
        while killed_at(line, give_back, kept):
            assert places(kept) in ([kept.quarantined], [target]), line
            assert findings(kept) == [], line
            line += 1
            give_back(kept)
            assert (places(kept), list(items(kept))) == ([target], [THEIRS]), line
            put_back(kept, target)
        assert line > 20, "it was hardly ever killed: this proves little"

    def test_a_purge(self, kept):
        """At every line: the file is there or deleted, fsck is clean, and going on leaves nothing."""
        line = 1
        while killed_at(line, delete, kept):
            assert places(kept) in ([kept.quarantined], []), line
            assert findings(kept) == [], line
            line += 1
            delete(kept)
            assert (places(kept), list(items(kept))) == ([], [THEIRS]), line
            put_back(kept, None)
        assert line > 15, "it was hardly ever killed: this proves little"


def put_back(kept, path: Path | None) -> None:
    """The file and its row as they were."""
    kept.quarantined.parent.mkdir(parents=True, exist_ok=True)
    if path is not None:
        path.unlink()
    kept.quarantined.write_bytes(b"notes")
    with kept.store() as store, store.writing() as tx:
        tx.quarantine.add(2, "notes.txt", "not-an-image", "no picture", str(kept.quarantined.relative_to(kept.state)), 1)


class TestRestore:
    def test_by_id(self, kept, adaptd):
        """The file comes into the inbox as of its domain, the row goes, the domain counts, and fsck is clean."""
        run = adaptd("--project", kept.root, "quarantine", "restore", OURS)
        target = kept.root / "inbox" / "night" / "notes.txt"
        assert (run.returncode, run.stdout) == (0, f"{OURS}: {target}\n")
        assert places(kept) == [target]
        assert not kept.quarantined.parent.exists()
        with kept.store() as store, store.reading() as tx:
            assert tx.domains.find("night").quarantined == 0
        assert check_project(kept.project) == ()

    def test_nothing_is_written_over(self, kept, adaptd):
        """A file of the same name in the inbox stays, the one given back gets another name."""
        theirs = kept.root / "inbox" / "night" / "notes.txt"
        theirs.parent.mkdir()
        theirs.write_bytes(b"other")
        assert adaptd("--project", kept.root, "quarantine", "restore", "--domain", "night").returncode == 0
        assert theirs.read_bytes() == b"other"
        assert places(kept) == [theirs.with_name(f"notes-{OURS}.txt")]

    def test_what_is_not_ours_stays(self, kept, adaptd):
        """The file of a user's own folder is told where it lies; the others with that reason are given back."""
        run = adaptd("--project", kept.root, "quarantine", "restore", "--reason", "not-an-image")
        assert (run.returncode, len(places(kept)), list(items(kept))) == (1, 1, [THEIRS])
        assert "/somewhere/of/the/user/mine.txt" in run.stderr

    def test_what_was_not_moved_yet_stays(self, kept, adaptd):
        """It is still in its drop, and the daemon is about to move it."""
        with kept.store() as store, store.writing() as tx:
            tx.quarantine.move(OURS, None)
        run = adaptd("--project", kept.root, "quarantine", "restore", OURS)
        assert (run.returncode, "still lies in the drop" in run.stderr) == (1, True)

    def test_a_file_that_is_gone_is_forgotten(self, kept, adaptd):
        """Its row was all that was left; fsck is clean again."""
        kept.quarantined.unlink()
        assert adaptd("--project", kept.root, "quarantine", "restore", OURS).stdout == f"{OURS}: was gone, forgotten\n"
        assert check_project(kept.project) == ()

    def test_an_inbox_that_cannot_be_written(self, kept):
        """The error is told, and the file is where it was, with its row."""
        (kept.root / "inbox" / "night").write_text("in the way")
        with pytest.raises(OSError, match="night"):
            give_back(kept)
        assert items(kept)[OURS].path == str(kept.quarantined.relative_to(kept.state))
        assert check_project(kept.project) == ()

    def test_an_inbox_on_another_filesystem(self, kept):
        """It is copied whole, then removed here; a copy that a killed process made is recognised."""
        other = Path("/dev/shm")
        if not other.is_dir() or other.stat().st_dev == kept.root.stat().st_dev:
            pytest.skip("there is no second filesystem to write to")
        inbox = other / f"adaptd-test-{os.getpid()}"
        try:
            (inbox / "night").mkdir(parents=True)
            (inbox / "night" / ".notes.txt.part").write_text("somebody's own")
            with kept.store() as store:
                restoring.give_back(store, Layout(kept.state), inbox, [items(kept)[OURS]])
            (target,) = [path for path in inbox.rglob("*.txt") if path.is_file()]
            assert (target.name, target.read_bytes(), places(kept)) == ("notes.txt", b"notes", [])
            (inbox / "night" / ".notes.txt.part").unlink()
            put_back(kept, None)
            with kept.store() as store:
                with store.writing() as tx:
                    tx.quarantine.move(max(items(kept)), str(target))
                restoring.finish_interrupted(store, Layout(kept.state), inbox)
            assert ([path.name for path in target.parent.iterdir()], places(kept)) == (["notes.txt"], [])
        finally:
            import shutil

            shutil.rmtree(inbox, ignore_errors=True)

    @pytest.mark.parametrize("words", [[], [99], ["--domain", "nigth"]])
    def test_what_is_not_there(self, kept, adaptd, words):
        """Nothing named, a wrong id, a wrong domain: one clear message, nothing done."""
        run = adaptd("--project", kept.root, "quarantine", "restore", *words)
        assert run.returncode in {1, 2}
        assert "Traceback" not in run.stderr
        assert places(kept) == [kept.quarantined]


class TestPurge:
    def test_it_asks(self, kept, adaptd):
        """Without a terminal and without --yes nothing is deleted."""
        run = adaptd("--project", kept.root, "quarantine", "purge", OURS)
        assert (run.returncode, "--yes" in run.stderr, places(kept)) == (1, True, [kept.quarantined])

    def test_it_deletes(self, kept, adaptd):
        """File and row are gone, and fsck is clean."""
        run = adaptd("--project", kept.root, "quarantine", "purge", OURS, "--yes")
        assert (run.returncode, run.stdout, places(kept)) == (0, "deleted 1 files\n", [])
        assert check_project(kept.project) == ()

    def test_a_quarantined_folder(self, kept, adaptd):
        """What a temporary folder holds goes with it, and the drop's count is not changed by it."""
        folder = kept.quarantined.with_name(".half")
        (folder / "x").mkdir(parents=True)
        with kept.store() as store, store.writing() as tx:
            key = tx.quarantine.add(2, ".half", "temporary", "left", str(folder.relative_to(kept.state)), 1)
        assert check_project(kept.project) == ()
        assert adaptd("--project", kept.root, "quarantine", "purge", key, "--yes").returncode == 0
        assert not folder.exists()
        with kept.store() as store, store.reading() as tx:
            assert tx.drops.get(1).files == 4


class TestList:
    def test_for_programs(self, kept, adaptd):
        """Every file with its reason, and how many of each."""
        document = json.loads(adaptd("--project", kept.root, "quarantine", "list", "--json").stdout)
        assert (document["schema"], document["reasons"]) == ("adaptd.quarantine/1", {"not-an-image": 2})
        assert [(file["id"], file["domain"], file["name"]) for file in document["files"]] == [
            (THEIRS, "source", "mine.txt"),
            (OURS, "night", "notes.txt"),
        ]

    def test_for_people(self, kept, adaptd):
        """A table of one domain; names from outside are text, not style, and cannot break a line."""
        with kept.store() as store, store.writing() as tx:
            tx.quarantine.add(2, "[red]<b>\n\u202egnp[/].exe", "empty", "0 bytes", None, 1)
        run = adaptd("--project", kept.root, "quarantine", "list", "night", env={"COLUMNS": "160"})
        assert "[red]<b>\\n\\u202egnp[/].exe" in run.stdout
        assert "2 files: 1 not-an-image, 1 empty" in run.stdout
        assert "mine.txt" not in run.stdout


def test_a_target_taken_meanwhile(kept):
    """Begun, killed, and then another file took the name: it stays, and ours goes back to where it was."""
    target = kept.root / "inbox" / "night" / "notes.txt"
    target.parent.mkdir()
    target.write_bytes(b"other")
    with kept.store() as store:
        with store.writing() as tx:
            tx.quarantine.move(OURS, str(target))
        (trouble,) = restoring.finish_interrupted(store, Layout(kept.state), kept.root / "inbox")
        assert "something else is there" in trouble
        assert restoring.finish_interrupted(store, Layout(kept.state), kept.root / "inbox") == ()
    assert (target.read_bytes(), places(kept)) == (b"other", [kept.quarantined])
