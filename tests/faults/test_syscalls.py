"""Rows 2, 4 and 5: killed at a system call that makes something last, or told by it that the disk failed; then run again.

`make test` tries a few calls of each kind, ADAPTD_FAULTS all of them, ADAPTD_CALLS=1-80 these of an episode's.
"""

import hashlib
import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.faults.test_power import ENV, IMPORT, fill, find_loss, needs_strace
from tests.tracing import run_with_fault

EVERY = bool(os.environ.get("ADAPTD_FAULTS"))
KILLS = ("fsync", "fdatasync", "syncfs", "?rename,?renameat,renameat2", "pwrite64")
FAILURES = [("fsync", "EIO"), ("fdatasync", "EIO"), ("syncfs", "EIO"), ("write", "ENOSPC"), ("pwrite64", "ENOSPC")]
FIRST, LAST = map(int, os.environ.get("ADAPTD_CALLS", "1-2000" if EVERY else "6-6").split("-"))
"""Which calls of an episode; there are fewer than 2,000."""


def injected(log: Path, root: Path) -> list[str]:
    """The project's files that calls met a fault at."""
    found, begun = list[str](), dict[str, str]()
    for line in log.read_text(errors="replace").splitlines():
        process, _, call = line.partition(" ")
        if call.endswith("<unfinished ...>"):
            begun[process] = call
        if "(INJECTED)" in call:
            found += re.findall(r"\(\d+<([^>]*)>", begun[process] if "resumed>" in call else call)[:1]
    return [path for path in found if path.startswith(str(root))]


def may_fail_in_silence(log: Path, path: str) -> bool:
    """Whether nothing is lost where a call failed and nobody was told.

    Of the database's own file only a checkpoint of its log is written: that stays, where it fails. A checkpoint syncs the log
    once more, though every commit has done so; where that fails it goes no further, and no call follows. The folder SQLite syncs
    by fdatasync, after adaptd has done so by fsync, which must not fail in silence.
    """
    calls = [line for line in log.read_text(errors="replace").splitlines() if re.match(r"\d+ +\w+\(", line)]
    if path.endswith("adaptd.db-wal"):
        return "fdatasync(" in calls[-1] and "(INJECTED)" in calls[-1]
    folder = path.endswith("/state") and any("fdatasync(" in line for line in calls if "(INJECTED)" in line)
    return folder or path.endswith("adaptd.db")


def files_in(root: Path) -> Counter[str]:
    """What lies in the inbox, in domains and in quarantine, by its bytes."""
    places = [root / "inbox", root / "state" / "domains", root / "state" / "quarantine"]
    return Counter(hashlib.sha256(p.read_bytes()).hexdigest() for place in places for p in place.rglob("*") if p.is_file())


def import_with(root: Path, call: str, fault: str, log: Path) -> int:
    """Import what is in the inbox, with a fault; the exit code."""
    strace = ["strace", "-f", "-y", "-qq", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]
    run = subprocess.run([*strace, *IMPORT, root], env=ENV, cwd=REPOSITORY, capture_output=True, check=False)
    return run.returncode


def find_calls(root: Path, call: str, log: Path) -> list[int]:
    """Which of the importing process's calls of a kind are about the project's files; in `make test` the last."""
    strace = ["strace", "-f", "-y", "-qq", "-o", log, "-e", f"trace={call}"]
    subprocess.run([*strace, *IMPORT, root], env=ENV, cwd=REPOSITORY, capture_output=True, check=True)
    lines = log.read_text(errors="replace").splitlines()
    calls = [line for line in lines if re.match(r"\d+ +\w+\(", line)]  # not the second halves of calls, nor signals
    process = next(line.split()[0] for line in calls if str(root) in line)
    made, found = Counter[str](), set[int]()
    for line in (line for line in calls if line.split()[0] == process):
        name = line.split()[1].partition("(")[0]  # strace counts calls of each name by themselves
        made[name] += 1
        if str(root) in line:
            found.add(made[name])
    return sorted(found) if EVERY else [max(found)]


def adapt_with(shop, night: Path, call: str, fault: str, log: Path) -> int:
    """One episode in the foreground, with a fault; the exit code."""
    process = shop.start("adapt", night, env={"ADAPTD_TRAINING__EPOCHS": "2"}, stopped=True)
    return run_with_fault(process, call, fault, log)


def import_again(shop, what: str) -> None:
    """Without a fault all is well."""
    run = subprocess.run([*IMPORT, shop.root], env=ENV, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{what}: {run.stderr}"
    assert find_loss(shop.root) == [], what
    assert shop.rows("SELECT count(*) FROM images WHERE domain_id = 2") == [(12,)], what
    assert shop.rows("SELECT path FROM quarantine") == [("quarantine/camera/1/broken.jpg",)], what


@pytest.mark.long
@pytest.mark.parametrize("call", KILLS)
def test_an_import_killed_at_a_call(shop, paint, tmp_path, call, figures):
    """Every file is in exactly one place at once, and accepted or quarantined after the next start."""
    needs_strace()
    fill(shop, paint)
    wanted, met = files_in(shop.root), 0
    for number in find_calls(shop.copy(tmp_path / "undisturbed").root, call, tmp_path / "log"):
        copy = shop.copy(tmp_path / f"copy-{number}")
        code = import_with(copy.root, call, f"signal=SIGKILL:when={number}", tmp_path / "log")
        assert files_in(copy.root) == wanted
        import_again(copy, f"killed at {call} {number}")
        met += code != 0
    assert met, "this call was never made"
    figures(call=call, kills=met, lost=0)


@pytest.mark.parametrize(("call", "error"), FAILURES)
def test_an_import_whose_calls_fail(shop, paint, tmp_path, call, error, figures):
    """No write or sync that failed passes for one that worked; after the next start all is well."""
    needs_strace()
    fill(shop, paint)
    met = 0
    for number in find_calls(shop.copy(tmp_path / "undisturbed").root, call, tmp_path / "log"):
        copy, log = shop.copy(tmp_path / f"copy-{number}"), tmp_path / "log"
        code = import_with(copy.root, call, f"error={error}:when={number}", log)
        where = injected(log, copy.root)
        told = code != 0 or copy.rows("SELECT count(*) FROM events WHERE kind = 'drop-stuck'") != [(0,)]
        assert told or all(may_fail_in_silence(log, path) for path in where), f"{call} {number} of {where} failed in silence"
        import_again(copy, f"{call} {number} failed at {where}")
        met += bool(where)
        assert where or EVERY, f"{call} {number} did not fail"
    assert met, "this call was never made"
    figures(call=call, error=error, failed=met, lost=0)


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("fsync,fdatasync", "signal=SIGKILL"),
        ("?rename,?renameat,renameat2", "signal=SIGKILL"),
        ("pwrite64", "signal=SIGKILL"),
        ("fsync,fdatasync", "error=EIO"),
        ("write,pwrite64", "error=ENOSPC"),
    ],
)
def test_an_episode_at_a_call(shop, night, tmp_path, call, fault, figures):
    """Checkpoints and the commit: nothing is lost, and the same command goes on to the end."""
    needs_strace()
    met = 0
    for number in range(FIRST, LAST + 1):
        copy, log = shop.copy(tmp_path / f"copy-{number}"), tmp_path / "log"
        code = adapt_with(copy, night, call, f"{fault}:when={number}", log)
        where = injected(log, copy.root)
        assert code != 0 or all(may_fail_in_silence(log, path) for path in where), f"{call} {number} of {where} failed in silence"
        again = copy.run("adapt", night, env={"ADAPTD_TRAINING__EPOCHS": "2"})
        assert again.returncode == 0 or "nothing new to learn" in again.stderr, again.stderr
        checked = json.loads(copy.run("fsck", "--deep", "--json").stdout)
        assert checked["clean"], f"{call} {number}: {checked}"
        assert copy.rows("SELECT count(*) FROM episodes WHERE state = 'done'") == [(2,)]
        met += bool(where if "error" in fault else code)
        if code == 0 and "INJECTED" not in log.read_text(errors="replace"):
            break
    assert met or FIRST > 1
    figures(call=call, fault=fault, first=FIRST, last=number, faults=met, lost=0)
