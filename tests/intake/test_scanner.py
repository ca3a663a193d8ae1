"""The scan finds every drop, tells what it does not take, and never mistakes a missing inbox for an empty one."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

from adaptd.errors import InboxUnavailable
from adaptd.intake.scanner import Scanner
from adaptd.intake.settling import DropState, Settling

from .conftest import settled


def states(scan):
    """Each drop's folder, domain and state."""
    return [(drop.folder.name, drop.domain, str(drop.state)) for drop in scan.drops]


def test_drops_settle_in_the_order_in_which_they_came(scanner, inbox, clock, plant):
    """Each sub-folder is a drop of the domain of its name; empty ones are none."""
    plant(inbox / "b", "1.jpg")
    (inbox / "nothing").mkdir()
    first = scanner.scan()
    assert states(first) == [("b", "b", "arriving")]
    assert clock.now < first.next_look <= clock.now + 5
    clock.now += 2
    plant(inbox / "a", "1.jpg", "x/2.jpg")
    assert states(scanner.scan()) == [("b", "b", "arriving"), ("a", "a", "arriving")]
    clock.now += 3
    assert states(scanner.scan()) == [("b", "b", "settled"), ("a", "a", "arriving")]
    clock.now += 2
    scan = scanner.scan()
    assert [(drop.domain, drop.tree.files) for drop in settled(scan)] == [("b", 1), ("a", 2)]


def test_folders_of_other_names_are_other_domains(scanner, inbox, plant):
    """`Camera 7` and `camera-7` are two, called as their folders are."""
    plant(inbox, "Camera 7/1.jpg", "camera-7/2.jpg")
    assert {(drop.folder.name, drop.domain) for drop in scanner.scan().drops} == {
        ("Camera 7", "Camera 7"),
        ("camera-7", "camera-7"),
    }


def test_what_is_no_drop_is_told_and_left_alone(scanner, inbox, clock, plant):
    """Loose files, links and names that no domain can have are warnings with a remedy; clutter is not worth a word."""
    plant(
        inbox,
        "loose.jpg",
        "all.ZIP",
        "more.tar.gz",
        ".DS_Store",
        "still.zip.part",
        "source/1.jpg",
        " /1.jpg",
        ".Trash-0/1.jpg",
        "good/1.jpg",
    )
    (inbox / "link").symlink_to(inbox / "good")
    for _ in range(2):
        scan = scanner.scan()
        told = {warning.names: warning.message for warning in scan.warnings}
        assert set(told) == {("loose.jpg",), ("all.ZIP", "more.tar.gz"), (" ", "source"), ("link",)}
        assert f"`unzip {inbox}/FILE.zip -d {inbox}/NAME`" in told["all.ZIP", "more.tar.gz"]
        assert "makes them a domain" in told["loose.jpg",]
        assert "rename them" in told[" ", "source"]
        assert "never followed" in told["link",]
        assert [drop.domain for drop in scan.drops] == ["good"]
        clock.now += 5
    assert (inbox / "loose.jpg").exists()
    assert (inbox / "source/1.jpg").exists()


def test_the_mark_is_seen_before_the_time(scanner, inbox, clock, plant):
    """`_READY` settles a drop at the next scan, due or not."""
    plant(inbox / "a", "1.jpg")
    scanner.scan()
    clock.now += 0.1
    (inbox / "a/_READY").touch()
    assert states(scanner.scan()) == [("a", "a", "settled")]


def test_an_awaited_temporary_file_is_seen_to_go(scanner, inbox, clock, plant):
    """A drop that waits for one is looked at again when it is renamed, not only after an hour."""
    plant(inbox / "a", "1.jpg", "2.jpg.part")
    scanner.scan()
    clock.now += 5
    (drop,) = scanner.scan().drops
    assert drop.why == "waiting for temporary file '2.jpg.part'"
    clock.now += 20
    (inbox / "a/2.jpg.part").rename(inbox / "a/2.jpg")
    assert [drop.why for drop in scanner.scan().drops] == ["still changing"]
    clock.now += 5
    assert [(drop.state, drop.tree.files) for drop in scanner.scan().drops] == [(DropState.SETTLED, 2)]


def test_a_left_behind_temporary_file_ends_waiting(scanner, inbox, clock, plant):
    """After `temporary_seconds` the drop is settled and names the file."""
    plant(inbox / "a", "1.jpg", "2.jpg.part")
    scanner.scan()
    while settled(scan := scanner.scan()) == ():
        assert scan.next_look > clock.now
        clock.now = scan.next_look
    assert clock.now == 1100
    assert list(settled(scan)[0].tree.temporary) == ["2.jpg.part"]


def test_drops_that_are_not_due_are_not_read(scanner, inbox, clock, plant):
    """A scan between two looks lists the inbox only; one that is due, or the periodic one, reads the drop."""
    plant(inbox, "a/s/1.jpg", "b/1.jpg.part")
    scanner.scan()
    clock.now += 5
    scanner.scan()
    plant(inbox, "a/s/2.jpg", "b/2.jpg")
    clock.now += 4
    assert {drop.domain: drop.tree.files for drop in scanner.scan().drops} == {"a": 1, "b": 0}
    clock.now += 1
    assert {drop.domain: drop.tree.files for drop in scanner.scan().drops} == {"a": 2, "b": 0}
    clock.now += 50
    assert {drop.domain: drop.tree.files for drop in scanner.scan().drops} == {"a": 2, "b": 1}


def test_a_settled_drop_that_changes_is_arriving_again(scanner, inbox, clock, plant):
    """Not claimed, as while paused, it is confirmed from time to time, and at once when its own folder changed."""
    plant(inbox, "a/s/1.jpg")
    scanner.scan()
    clock.now += 5
    assert settled(scanner.scan())
    plant(inbox, "a/2.jpg")
    assert [drop.why for drop in scanner.scan().drops] == ["still changing"]
    clock.now += 5
    assert settled(scanner.scan())
    plant(inbox, "a/s/2.jpg")
    clock.now += 5
    assert [drop.why for drop in scanner.scan().drops] == ["still changing"]


def test_a_drop_that_comes_again_starts_anew(scanner, inbox, clock, plant):
    """Its name alone says nothing: the next delivery has its own time to settle."""
    plant(inbox, "a/1.jpg")
    scanner.scan()
    clock.now += 5
    assert settled(scanner.scan())
    (inbox / "a").rename(inbox.parent / "claimed")
    plant(inbox, "a/2.jpg")
    assert states(scanner.scan()) == [("a", "a", "arriving")]
    shutil.rmtree(inbox / "a")
    assert scanner.scan().drops == ()
    (inbox.parent / "claimed").rename(inbox / "a")
    assert states(scanner.scan()) == [("a", "a", "arriving")]


def test_one_unreadable_drop_does_not_hide_the_others(scanner, inbox, plant):
    """A drop that the system cannot read, here for a path beyond 4,096 bytes, is a warning; the others are drops."""
    plant(inbox, "a/1.jpg", "bad/1.jpg", "z/1.jpg")
    place = os.open(inbox / "bad", os.O_RDONLY)
    for _ in range(25):
        os.mkdir("x" * 200, dir_fd=place)
        inner = os.open("x" * 200, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    scan = scanner.scan()
    assert sorted(drop.domain for drop in scan.drops) == ["a", "z"]
    assert [warning.names for warning in scan.warnings] == [("bad: File name too long",)]


def test_a_vanished_inbox_is_an_alarm_and_a_new_one_is_accepted(scanner, inbox, clock, plant):
    """It is never read as empty; made again where it was, it is the inbox."""
    plant(inbox, "a/1.jpg")
    scanner.scan()
    inbox.rename(inbox.with_name("away"))
    with pytest.raises(InboxUnavailable, match="not available"):
        scanner.scan()
    inbox.mkdir()
    assert scanner.scan().drops == ()
    plant(inbox, "b/1.jpg")
    assert states(scanner.scan()) == [("b", "b", "arriving")]


def test_a_drop_known_before_goes_on_when_the_inbox_is_back(scanner, inbox, clock, plant):
    """What was settling settles in one scan."""
    plant(inbox, "a/1.jpg")
    scanner.scan()
    inbox.rename(inbox.with_name("away"))
    clock.now += 5
    with pytest.raises(InboxUnavailable):
        scanner.scan()
    inbox.with_name("away").rename(inbox)
    assert states(scanner.scan()) == [("a", "a", "settled")]


def test_an_inbox_that_is_a_file_is_an_alarm(tmp_path, clock):
    """So is one that cannot be listed."""
    (tmp_path / "inbox").touch()
    with pytest.raises(InboxUnavailable, match="Not a directory"):
        Scanner(tmp_path / "inbox", Settling(1, 1), 60, clock).scan()


UNMOUNTING = """
    import subprocess, sys
    from pathlib import Path
    from adaptd.errors import InboxUnavailable
    from adaptd.intake.scanner import Scanner
    from adaptd.intake.settling import Settling
    from adaptd.intake.watching import Watcher
    inbox = Path(sys.argv[1])
    def mount(kind="-t tmpfs none"):
        subprocess.run(["mount", *kind.split(), inbox], check=True)
    mount(sys.argv[2])
    (inbox / "a").mkdir()
    (inbox / "a/1.jpg").touch()
    scanner, watcher = Scanner(inbox, Settling(0, 1)), Watcher(inbox)
    assert [(drop.domain, str(drop.state)) for drop in scanner.scan().drops] == [("a", "settled")]
    subprocess.run(["umount", inbox], check=True)
    for _ in range(2):
        try:
            scanner.scan()
        except InboxUnavailable as error:
            assert "not mounted any more" in str(error), error
        else:
            raise AssertionError("an unmounted inbox was read as an empty one")
    watcher.wait(0)
    mount(sys.argv[2])
    (inbox / "b").mkdir(exist_ok=True)
    (inbox / "b/1.jpg").touch()
    assert ("b", "settled") in [(drop.domain, str(drop.state)) for drop in scanner.scan().drops]
    watcher.wait(0)
    (inbox / "c").mkdir()
    assert watcher.wait(30), "no events after the inbox was back"
    watcher.stop()
"""


@pytest.mark.parametrize("kind", ["-t tmpfs none", "--bind {outside}"])
def test_an_unmounted_inbox_is_an_alarm_until_it_is_back(tmp_path, kind):
    """The empty mount point is not taken for the inbox; mounted again, one scan goes on and events come again."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "outside").mkdir()
    kind = kind.format(outside=tmp_path / "outside")
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces: unshare -Urm")
    program = [sys.executable, "-c", textwrap.dedent(UNMOUNTING), tmp_path / "inbox", kind]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(["unshare", "-Urm", *program], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr


def test_an_inbox_that_goes_during_a_scan_is_an_alarm(inbox, plant):
    """What was seen half-way does not count, and nothing that was known is forgotten."""
    plant(inbox, "a/1.jpg", "b/1.jpg")
    times = iter(range(100))

    def clock():
        """Take the inbox away at a time at which the second scan reads the drops."""
        now = next(times)
        if now == 10:
            inbox.rename(inbox.with_name("away"))
        return 1000 + now

    scanner = Scanner(inbox, Settling(5, 100), 60, clock)
    scanner.scan()
    with pytest.raises(InboxUnavailable):
        while True:
            scanner.scan()
    inbox.with_name("away").rename(inbox)
    assert sorted(drop.domain for drop in scanner.scan().drops) == ["a", "b"]
