"""Row 13: any order of drops, late writers, swapped folders, unmovable files, kills and power cuts; nothing is lost or invented.

The supervisor is the real one, in a process of its own that really dies, without root's privileges. Its workers work
inside of it, and its trainer takes a millisecond. A power cut does what ext4 does: names stay, the bytes of files that nobody
synced are gone.
"""

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import sqlite3
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from PIL import Image

from adaptd import files
from adaptd.care.fsck import check_project
from adaptd.daemon import supervisor, worker
from adaptd.daemon.jobs import Job, JobEnd, JobKind, JobOutcome
from adaptd.episodes.leases import take_lease
from adaptd.project.layers import Project
from adaptd.project.lock import hold_project
from adaptd.project.settings import IntakeSettings, ModelSettings, Settings
from adaptd.records import Accuracy, AccuracyKind, DomainState, VersionState
from adaptd.signals import noting_signals
from adaptd.store import NewVersion, Store

pytestmark = pytest.mark.long

LONG = bool(os.environ.get("ADAPTD_FAULTS"))
EXAMPLES, STEPS = (int(os.environ.get("ADAPTD_EXAMPLES", "1000")), 50) if LONG else (4, 10)
HANGS_SECONDS = 3600 if LONG else 60  # a long run may be stopped for a while
PR_CAPBSET_DROP, CAPABILITY_VERSION_3 = 24, 0x20080522
CUT = ("rename", "replace", "fsync", "mkdir", "unlink", "rmdir", "link", "write")
"""A process may die before each of these."""


def drop_capabilities() -> None:
    """From here on root may do what the permissions of files allow, and no more; so may what it starts."""
    library = ctypes.CDLL(None)
    for number in range(64):
        library.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    library.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())


class InlineChildren:
    """Workers without processes of their own: what is started is done."""

    def __init__(self, _wake: object) -> None:
        self._ended: list[tuple[Job, JobEnd]] = []

    def is_running(self, _kind: JobKind) -> bool:
        """Never: it is over at once."""
        return False

    def list_running(self) -> tuple[()]:
        """None."""
        return ()

    def start(self, project: Project, job: Job) -> None:
        """Do it."""
        with Store(project.database, 5.0) as store, noting_signals() as stop:
            try:
                work = train if job.kind is JobKind.EPISODE else worker.WORK[job.kind]
                end = work(project, store, job.key, stop)
            except Exception as problem:  # noqa: BLE001 (as the worker's own main)
                end = JobEnd(JobOutcome.TROUBLE, str(problem))
        self._ended.append((job, end))

    def collect_ended(self) -> list[tuple[Job, JobEnd]]:
        """What was done since."""
        ended, self._ended = self._ended, []
        return ended

    def stop(self, _seconds: float) -> None:
        """Nothing runs."""


def train(_project: Project, store: Store, episode_id: int, _stop: object) -> JobEnd:
    """An episode that learns nothing: its version is rejected, its row of R complete."""
    lease = take_lease(store, episode_id)
    with store.writing() as tx:
        episode = tx.episodes.get(episode_id)
        version = tx.versions.add(NewVersion(1, episode_id, ("a", "b", "c"), "weights/none", "0" * 64))
        tx.versions.set_state(version.version, VersionState.REJECTED)
        tx.domains.place(episode.domain_id)
        for domain in tx.domains.list_all():
            if domain.position is not None:
                tx.accuracies.record(Accuracy(version.version, domain.id, AccuracyKind.MEASURED, 0.5, 10, 5))
        tx.domains.set_state(episode.domain_id, DomainState.DONE)
        tx.episodes.commit(episode_id, lease, {})
    return JobEnd(JobOutcome.DONE, "trained")


class Countdown:
    """Kills this process before the n-th change of a file; tells which files were synced until then."""

    def __init__(self, left: int | None, synced: Path) -> None:
        self._left = left
        self._log = os.open(synced, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._write = os.write

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """While it lasts."""
        with contextlib.ExitStack() as stack:
            for name in CUT:
                stack.enter_context(patch.object(os, name, self._before(getattr(os, name))))
            if hasattr(files, "_sync_filesystem"):
                stack.enter_context(patch.object(files, "_sync_filesystem", self._noting_all(files._sync_filesystem)))
            yield

    def _before(self, call):
        def counted(*words, **options):
            if self._left is not None:
                if self._left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                self._left -= 1
            found = call(*words, **options)
            if call.__name__ == "fsync":
                self._write(self._log, b"%d\n" % os.fstat(words[0]).st_ino)
            return found

        return counted

    def _noting_all(self, call):
        def noting(*words, **options):
            found = call(*words, **options)
            self._write(self._log, b"all\n")
            return found

        return noting


class Machine(RuleBasedStateMachine):
    """One project, its users, its attackers and its bad luck."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="adaptd-machine-", dir="/tmp"))
        self.root = Path(shutil.copytree(self.template, self.folder / "shop"))
        self.inbox, self.state = self.root / "inbox", self.root / "state"
        self.outside = self.folder / "outside"
        self.outside.mkdir()
        (self.outside / "diary.png").write_bytes(b"nobody's business")
        self.inbox.mkdir(exist_ok=True)
        self.known = {self._hash(path) for path in self._every()}
        self.produced: Counter[str] = Counter()
        self.held: list[int] = []
        self.locked: list[int] = []
        self.number, self.swapped = 0, False
        self.unsynced: set[int] = set()

    # What users do

    @rule(name=st.sampled_from(["north", "süd", "Süd"]), images=st.integers(1, 3), junk=st.booleans(), below=st.booleans())
    def drop(self, name: str, images: int, *, junk: bool, below: bool) -> None:
        """Put files into a folder of the inbox, and keep it open."""
        folder = self.inbox / name
        if folder.is_symlink():
            return
        folder.mkdir(exist_ok=True)
        self.held.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        if below:
            with contextlib.suppress(FileExistsError):
                os.mkdir("sub", dir_fd=self.held[-1])
        for _ in range(images):
            self._write(self.held[-1], "sub" if below else "", image=True)
        if junk:
            self._write(self.held[-1], "sub" if below else "", image=False)

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99), image=st.booleans())
    def write_late(self, which: int, *, image: bool) -> None:
        """Write through a folder that was opened long ago, wherever it is now."""
        with contextlib.suppress(FileNotFoundError):
            self._write(self.held[which % len(self.held)], "", image=image)

    # What attackers do

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99))
    def swap_sub_folder(self, which: int) -> None:
        """A sub-folder becomes a link to somewhere else."""
        folder = self.held[which % len(self.held)]
        self.number += 1
        with contextlib.suppress(FileNotFoundError, FileExistsError, PermissionError):
            os.rename("sub", f"sub-{self.number}", src_dir_fd=folder, dst_dir_fd=folder)
            self.swapped = True
            os.symlink(self.outside, "sub", dir_fd=folder)

    @rule(name=st.sampled_from(["north", "süd"]))
    def swap_drop(self, name: str) -> None:
        """A whole drop becomes a link to somewhere else."""
        self.number += 1
        with contextlib.suppress(FileNotFoundError):
            (self.inbox / name).rename(self.inbox / f"{name}-{self.number}")
            (self.inbox / name).symlink_to(self.outside)

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99))
    def make_unmovable(self, which: int) -> None:
        """A sub-folder that nobody may change."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            sub = os.open("sub", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.held[which % len(self.held)])
            os.fchmod(sub, 0o555)
            self.locked.append(sub)

    # What the machine does

    @rule(dies_after=st.one_of(st.none(), st.integers(0, 120)))
    def work(self, dies_after: int | None) -> None:
        """The daemon starts, and works until nothing is left to do, or until it is killed."""
        self._run(dies_after)

    @rule(dies_after=st.integers(0, 120))
    def cut_power(self, dies_after: int) -> None:
        """The same, and what nobody synced is empty afterwards."""
        before = {path.stat().st_ino: path for path in self._every()}
        self.unsynced |= {inode for inode, path in before.items() if self._hash(path) in self.produced}
        synced = self._run(dies_after)
        self.unsynced = set() if "all" in synced else self.unsynced - {int(inode) for inode in synced}
        accepted = self._accepted()
        for path in self._every():
            if path.stat().st_ino in self.unsynced:
                digest = self._hash(path)
                assert digest not in accepted, f"{path} was accepted, and its bytes are not on the disk"
                self.produced[digest] -= 1
                path.unlink()  # empty, it would be another file with the same content as the others

    @rule()
    def sync(self) -> None:
        """Time passes, and the kernel writes everything."""
        self.unsynced = set()

    # What holds at any time

    @invariant()
    def nothing_is_lost(self) -> None:
        """I1: every file that somebody put there is there, once."""
        assert Counter(d for d in map(self._hash, self._every()) if d not in self.known) == +self.produced

    @invariant()
    def nothing_else_is_touched(self) -> None:
        """Links lead nowhere."""
        assert [path.name for path in self.outside.iterdir()] == ["diary.png"]
        assert (self.outside / "diary.png").read_bytes() == b"nobody's business"

    @invariant()
    def rows_are_sound(self) -> None:
        """I2 and I5."""
        assert self._rows("SELECT domain_id, sha256 FROM images GROUP BY 1, 2 HAVING count(*) > 1") == []
        assert self._rows("PRAGMA integrity_check") == [("ok",)]
        assert self._rows("PRAGMA foreign_key_check") == []

    def teardown(self) -> None:
        """Left alone, everything comes to its end, and `fsck` has nothing to say."""
        try:
            for sub in self.locked:
                os.fchmod(sub, 0o755)
            for path in self.inbox.iterdir():
                if path.is_symlink():
                    path.unlink()
            for _ in range(3):
                self._run(None)
            findings = [str(finding) for finding in check_project(self._project(), pause=lambda _: None)]
            # Who holds a folder open may rename what is in it at any time: then it is there, but not where it was.
            findings = [finding for finding in findings if not (self.swapped and "in no drop any more" in finding)]
            assert findings == [], findings
            self.nothing_is_lost()
            self.nothing_else_is_touched()
        finally:
            for descriptor in (*self.held, *self.locked):
                os.close(descriptor)
            shutil.rmtree(self.folder)

    def _project(self) -> Project:
        intake = IntakeSettings(settle_seconds=0.01, minimum_images=1, min_free_bytes=0)
        middle = (0.5, 0.5, 0.5)
        model = ModelSettings(name="shop", backbone="lenet5", image_size=16, mean=middle, std=middle, projector_hidden=16)
        return Project(self.root, Settings(intake=intake, model=model), {})

    def _run(self, dies_after: int | None) -> set[str]:
        """The daemon in a process of its own; what was synced."""
        log = self.folder / "synced"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                drop_capabilities()
                os.chdir(self.folder)
                signal.alarm(HANGS_SECONDS)
                with patch.object(supervisor, "Children", InlineChildren), Countdown(dies_after, log).counting():
                    self._supervise()
                code = 0
            except BaseException:  # noqa: BLE001 (a child that must not come back)
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert status in {0, signal.SIGKILL}, f"the daemon ended with {status}"
        return set(log.read_text().split()) if log.exists() else set()

    def _supervise(self) -> None:
        project = self._project()
        with noting_signals() as stop, hold_project(project.state, "run") as lock, Store(project.database, 5.0) as store:
            supervisor.Supervisor(project, store, lock, stop).run(drain=True)

    def _write(self, folder: int, inside: str, *, image: bool) -> None:
        self.number += 1
        name = f"{inside}/{self.number}.png" if inside else f"{self.number}.png"
        path = self.folder / "new"
        if image:
            pixels = np.random.default_rng(self.number).integers(0, 255, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path, format="PNG")
        else:
            path.write_bytes(b"junk %d" % self.number)
        content = path.read_bytes()
        path.unlink()
        with contextlib.suppress(NotADirectoryError):
            below = os.open(inside or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                file = os.open(Path(name).name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=below)
            finally:
                os.close(below)
            os.write(file, content)
            os.close(file)
            self.produced[hashlib.sha256(content).hexdigest()] += 1

    def _every(self) -> list[Path]:
        """Files in the inbox, in domains and in quarantine."""
        places = (self.inbox, self.state / "domains", self.state / "quarantine")
        found = (Path(folder, name) for place in places for folder, _, names in os.walk(place) for name in names)
        return [path for path in found if path.is_file() and not path.is_symlink()]

    def _accepted(self) -> set[str]:
        return {digest for (digest,) in self._rows("SELECT sha256 FROM images")}

    def _rows(self, query: str) -> list[tuple]:
        with contextlib.closing(sqlite3.connect(self.state / "adaptd.db", timeout=30)) as database:
            return database.execute(query).fetchall()

    @staticmethod
    def _hash(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()


def test_nothing_is_lost(shop, figures):
    """Whatever happens, in whatever order."""
    Machine.template = shop.root
    options = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        database=None,
        derandomize=not LONG,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=options)
    figures(examples=EXAMPLES, steps=STEPS, lost=0)
