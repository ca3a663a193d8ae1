"""A drop is claimed whole and once, across filesystems too, and a kill at any step loses nothing."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from adaptd.errors import ClaimRefused, DropChanged, InboxUnavailable
from adaptd.intake import moving
from adaptd.intake.claiming import begin_claim, claim, finish_claim
from adaptd.intake.tree import read_tree
from adaptd.text import printable

NAMES = ("1.jpg", "sub/2.jpg", "sub/deep/3.jpg", "_READY")


def content(folder):
    """Every file's path and bytes, and what is no file by its kind."""
    found = {}
    for path in folder.rglob("*"):
        kind = path.lstat().st_mode
        if not stat.S_ISDIR(kind):
            found[str(path.relative_to(folder))] = path.read_bytes() if stat.S_ISREG(kind) else stat.filemode(kind)[0]
    return found


@pytest.fixture(params=["same disk", "other disk"])
def target(request, tmp_path):
    """Where a drop goes: a rename away, or on another filesystem."""
    base = tmp_path / "state" if request.param == "same disk" else request.getfixturevalue("other_disk")
    return base / "domains" / "7" / "1"


def test_a_drop_moves_whole(inbox, plant, target):
    """All files, the mark too, are at the target; nothing stays in the inbox, nothing unfinished beside the target."""
    drop = plant(inbox / "a", *NAMES, ".DS_Store", "left.part")
    os.utime(drop / "1.jpg", ns=(10**18, 10**18))
    before = content(drop)
    assert claim(drop, target, read_tree(drop).fingerprint) == ()
    assert content(target) == before
    assert (target / "1.jpg").stat().st_mtime_ns == 10**18
    assert list(inbox.iterdir()) == []
    assert list(target.parent.iterdir()) == [target]


def test_only_copying_takes_time(inbox, plant, tmp_path, other_disk):
    """A rename, which keeps the inode, is done once the claim has begun; a copy ends in a thread. Both can be called again."""
    renamed, copied = plant(inbox / "a", "1.jpg"), plant(inbox / "b", "1.jpg")
    inode = (renamed / "1.jpg").stat().st_ino
    claims = {}
    for drop, target in ((renamed, tmp_path / "state/1"), (copied, other_disk / "1")):
        claims[target] = begin_claim(drop, target, read_tree(drop).fingerprint)
    assert claims[tmp_path / "state/1"].done()
    assert (tmp_path / "state/1/1.jpg").stat().st_ino == inode
    for target, claimed in claims.items():
        assert claimed.result(timeout=30) == ()
        assert content(target) == {"1.jpg": b"1.jpg"}
        assert begin_claim(inbox / "gone", target, "").result(timeout=30) == ()
    assert list(inbox.iterdir()) == []


def test_what_goes_wrong_in_the_thread_is_told(inbox, plant, target):
    """Whoever asks for the result hears of it."""
    with pytest.raises(DropChanged, match="settled again"):
        begin_claim(plant(inbox / "a", "1.jpg"), target, "another").result(timeout=30)


def test_room_is_asked_for_before_a_copy_alone(inbox, plant, tmp_path, other_disk):
    """A rename needs none."""
    drop = plant(inbox / "a", "1.jpg")
    os.truncate(drop / "1.jpg", 2**43)
    settled = read_tree(drop).fingerprint
    with pytest.raises(ClaimRefused, match=f"does not fit on the disk of {other_disk}/state: make room"):
        begin_claim(drop, other_disk / "state/1", settled).result(timeout=30)
    assert list((other_disk / "state").iterdir()) == []
    assert begin_claim(drop, tmp_path / "state/1", settled).result(timeout=0) == ()


def test_files_that_come_later_are_the_next_delivery(inbox, plant, target):
    """A claim that is called again leaves a new drop of the same name alone; its own claim takes it."""
    claim(plant(inbox / "a", "1.jpg"), target)
    plant(inbox / "a", "1.jpg", "late.jpg")
    assert claim(inbox / "a", target) == ()
    assert content(inbox / "a") == {"1.jpg": b"1.jpg", "late.jpg": b"late.jpg"}
    claim(inbox / "a", target.with_name("2"))
    assert set(content(target)) == {"1.jpg"}
    assert set(content(target.with_name("2"))) == {"1.jpg", "late.jpg"}


def test_a_drop_that_changed_is_not_claimed(inbox, plant, target):
    """What settled is what is taken, or nothing is."""
    drop = plant(inbox / "a", "1.jpg")
    settled = read_tree(drop).fingerprint
    plant(drop, "2.jpg")
    with pytest.raises(DropChanged, match="settled again"):
        claim(drop, target, settled)
    shutil.rmtree(drop)
    with pytest.raises(DropChanged, match="not in the inbox any more"):
        claim(drop, target, settled)
    drop.symlink_to(inbox)
    with pytest.raises(DropChanged, match="not a folder"):
        claim(drop, target)
    assert not target.exists()


def test_links_and_pipes_go_along_unread(inbox, plant, target):
    """Links stay links, a FIFO that nobody writes to does not hang the claim, names of any bytes are kept."""
    drop = plant(inbox / "a", "1.jpg", "s/2.jpg", os.fsdecode(b"odd\xff\n.jpg"))
    (drop / "loop").symlink_to(drop)
    (drop / "dangling").symlink_to("nowhere")
    os.mkfifo(drop / "pipe")
    os.link(drop / "1.jpg", drop / "s/same.jpg")
    before = content(drop)
    assert claim(drop, target) == ()
    assert content(target) == before
    assert (target / "loop").readlink() == drop
    assert not drop.exists()


@pytest.mark.parametrize("there", [(), ("a/1.jpg",), ("a/new/2.jpg",)])
def test_another_inbox_is_not_the_one_copied_from(inbox, plant, other_disk, there):
    """What stands in its place, empty or not, keeps its files, and what was copied goes once the inbox is back."""
    drop, target, away = plant(inbox / "a", "1.jpg"), other_disk / "1", inbox.with_name("away")
    copy_without_removing(drop, target)
    copied = (drop / "1.jpg").stat()
    inbox.rename(away)
    inbox.mkdir()
    for path in there:
        (inbox / path).parent.mkdir(parents=True)
        (inbox / path).write_bytes(b"other")
        os.utime(inbox / path, ns=(copied.st_atime_ns, copied.st_mtime_ns))
    with pytest.raises(InboxUnavailable, match="mount it again"):
        claim(drop, target)
    assert content(inbox) == dict.fromkeys(there, b"other")
    shutil.rmtree(inbox)
    away.rename(inbox)
    assert claim(drop, target) == ()
    assert (content(target), list(inbox.iterdir())) == ({"1.jpg": b"1.jpg"}, [])


def test_an_inode_is_believed_in_the_same_inbox_alone(inbox, plant, other_disk):
    """On another disk a file may have it, the size and the time by chance: its bytes decide."""
    drop, target = plant(inbox / "a", "1.jpg"), other_disk / "1"
    copy_without_removing(drop, target)
    manifest = target.with_name(".claimed-1.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"inbox": 4711}))
    before = (drop / "1.jpg").stat()
    (drop / "1.jpg").write_bytes(b"2.jpg")
    os.utime(drop / "1.jpg", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InboxUnavailable):
        claim(drop, target)
    assert content(drop) == {"1.jpg": b"2.jpg"}


def test_a_socket_is_left_behind_by_a_copy(inbox, plant, other_disk):
    """It cannot be copied: it stays in the inbox with a word about it; a drop of nothing else is refused."""
    drop = plant(inbox / "a", "1.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(drop / "s"))
    assert claim(drop, other_disk / "1") == ("s: a socket or a device cannot be copied",)
    assert list(drop.iterdir()) == [drop / "s"]
    with pytest.raises(ClaimRefused, match=r"nothing in .* can be copied"):
        claim(drop, other_disk / "2")
    assert list(other_disk.iterdir()) == [other_disk / "1"]


def copy_without_removing(drop, target):
    """A claim that was killed when the copy was complete."""
    copy = moving.copy_tree(drop, target.with_name(f".claiming-{target.name}"))
    target.with_name(f".claimed-{target.name}.json").write_text(
        json.dumps(moving.asdict(copy) | {"inbox": drop.parent.stat().st_ino})
    )
    target.with_name(f".claiming-{target.name}").rename(target)


def test_only_what_was_copied_is_removed(inbox, plant, other_disk):
    """A file that was replaced, changed or added between the copy and the removal stays in the inbox as the next delivery."""
    drop, target = plant(inbox / "a", "1.jpg", "2.jpg", "3.jpg", "s/4.jpg"), other_disk / "1"
    copy_without_removing(drop, target)
    plant(drop, "new.jpg")
    (drop / "2.jpg").write_bytes(b"a newer one")
    status = (drop / "3.jpg").stat()
    (drop / "3b").write_bytes(b"3.JPG")
    os.utime(drop / "3b", ns=(status.st_atime_ns, status.st_mtime_ns))
    (drop / "3b").rename(drop / "3.jpg")
    assert claim(drop, target) == ()
    assert content(target) == {name: name.encode() for name in ("1.jpg", "2.jpg", "3.jpg", "s/4.jpg")}
    assert content(drop) == {"new.jpg": b"new.jpg", "2.jpg": b"a newer one", "3.jpg": b"3.JPG"}
    assert list(other_disk.iterdir()) == [target]


def test_a_claim_that_was_cut_short_is_finished(inbox, plant, other_disk):
    """Copied, it goes from the inbox, whatever its name; not copied in full, it stays there, and nothing of the copy is left."""
    drop, target = plant(inbox / os.fsdecode(b"na\xefve"), "1.jpg"), other_disk / "1"
    moving.copy_tree(drop, target.with_name(".claiming-1"))
    assert not finish_claim(inbox, printable(drop), target)
    assert (content(drop), list(other_disk.iterdir())) == ({"1.jpg": b"1.jpg"}, [])
    copy_without_removing(drop, target)
    assert finish_claim(inbox, printable(drop), target)
    assert (content(target), list(inbox.iterdir())) == ({"1.jpg": b"1.jpg"}, [])


def test_while_the_inbox_is_away_a_copy_is_not_forgotten(inbox, plant, other_disk):
    """The removal waits until the inbox is back."""
    drop, target = plant(inbox / "a", "1.jpg"), other_disk / "1"
    copy_without_removing(drop, target)
    inbox.rename(inbox.with_name("away"))
    with pytest.raises(InboxUnavailable, match="mount it again"):
        claim(drop, target)
    inbox.with_name("away").rename(inbox)
    claim(drop, target)
    assert not drop.exists()
    assert list(other_disk.iterdir()) == [target]


CLAIM = """
    import sys
    from pathlib import Path
    from adaptd.intake.claiming import claim
    from adaptd.intake.tree import read_tree
    drop, target = Path(sys.argv[1]), Path(sys.argv[2])
    claim(drop, target, read_tree(drop).fingerprint)
"""
STEPS = ("rename", "renameat", "fsync", "mkdir", "mkdirat", "unlink", "unlinkat", "symlinkat", "mknodat", "utimensat", "write")


def run_claim(drop, target, *around):
    """Claim in a process of its own, which may be killed, or told of errors, by what is put around it."""
    program = [sys.executable, "-I", "-S", "-B", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{textwrap.dedent(CLAIM)}"]
    return subprocess.run([*around, *program, drop, target], capture_output=True, text=True, check=False, timeout=60)


def strace(injection):
    """Run under strace, which does something at a step of the claim."""
    if shutil.which("strace") is None or subprocess.run(["strace", "-qq", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs strace and the right to trace: apt-get install strace")
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={','.join(STEPS)}", "-e", f"inject={injection}"]


def test_killed_at_every_step_nothing_is_lost(inbox, plant, target):
    """Before every change that a claim makes: each file is whole in the inbox or at the target, and a second call ends well."""
    killed = Counter()
    # strace counts each system call for itself.
    for call, number in ((call, number) for call in STEPS for number in range(1, 100)):
        if killed[call] < number - 1:
            continue
        drop, goal = plant(inbox / "a", *NAMES), target.parent / f"{call}-{number}"
        (drop / "link").symlink_to("1.jpg")
        os.mkfifo(drop / "pipe")
        before = content(drop)
        run = run_claim(drop, goal, *strace(f"{call}:signal=SIGKILL:when={number}"))
        assert run.returncode in {0, -9}, run.stderr
        killed[call] += run.returncode == -9
        assert content(goal) == before if goal.exists() else content(drop) == before
        claim(drop, goal)
        assert content(goal) == before
        assert list(inbox.iterdir()) == []
        assert [path.name for path in goal.parent.iterdir() if path.name.startswith(".")] == []
    copies = {"fsync": 4 + 3 + 5, "unlinkat": 6 + 3, "symlinkat": 1} if list(killed.values())[-1] else {}
    assert killed["renameat"] >= 1
    assert all(killed[call] >= least for call, least in copies.items()), killed


@pytest.mark.parametrize("error", ["EROFS", "EACCES", "EPERM"])
def test_a_read_only_inbox_is_refused_with_the_remedy(inbox, plant, tmp_path, error):
    """The message names the other mode, and the drop is where it was."""
    drop = plant(inbox / "a", *NAMES)
    run = run_claim(drop, tmp_path / "state/1", *strace(f"renameat:error={error}"))
    assert "adaptd.errors.ClaimRefused" in run.stderr
    assert 'intake.mode = "in-place"' in run.stderr
    assert set(content(drop)) == set(NAMES)


def test_a_read_only_inbox_on_another_disk_is_refused_before_copying(tmp_path, plant):
    """A copy that could not be removed afterwards would come again and again."""
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces: unshare -Urm")
    drop = plant(tmp_path / "inbox" / "a", *NAMES)
    read_only = f'mount --bind "{tmp_path}/inbox" "{tmp_path}/inbox" && mount -o remount,ro,bind "{tmp_path}/inbox" && exec "$@"'
    run = run_claim(drop, tmp_path / "state/1", "unshare", "-Urm", "sh", "-c", read_only, "sh")
    assert "adaptd.errors.ClaimRefused" in run.stderr
    assert list((tmp_path / "state").iterdir()) == []
    assert set(content(drop)) == set(NAMES)


@pytest.mark.parametrize("injection", ["fsync:error=EIO:when=2", "fsync:error=ENOSPC:when=4"])
def test_a_broken_or_full_disk_is_told_as_it_is(inbox, plant, other_disk, injection):
    """No copy counts whose fsync failed: the drop is where it was, and nothing unfinished stays."""
    drop, target = plant(inbox / "a", *NAMES), other_disk / "state/1"
    run = run_claim(drop, target, *strace(injection))
    assert run.returncode == 1
    assert "OSError" in run.stderr.splitlines()[-1]
    assert set(content(drop)) == set(NAMES)
    assert list(target.parent.iterdir()) == []


def test_a_full_disk_leaves_the_drop(tmp_path, plant):
    """On a filesystem of 100 kB, where even small files take 4 kB each, the copy is given up and removed."""
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces: unshare -Urm")
    names = {*NAMES, *(f"{number}-of-many.jpg" for number in range(60))}
    drop = plant(tmp_path / "inbox" / "a", *names)
    (tmp_path / "state").mkdir()
    small = f'mount -t tmpfs -o size=100k none "{tmp_path}/state" && "$@"; code=$?; ls -A "{tmp_path}/state"; exit $code'
    run = run_claim(drop, tmp_path / "state/1", "unshare", "-Urm", "sh", "-c", small, "sh")
    assert run.returncode == 1
    assert "No space left on device" in run.stderr
    assert run.stdout == ""
    assert set(content(drop)) == names
