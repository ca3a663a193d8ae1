"""A folder on its way from the inbox to a row and a place of its own: every state, trouble in each, and a start after a kill."""

import errno
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from adaptd.daemon import arrivals as module
from adaptd.daemon import queue
from adaptd.daemon.arrivals import DELAYED_SECONDS, REFUSED_SECONDS, Arrival, Arrivals, ArrivalState, see
from adaptd.daemon.control import cancel, retry
from adaptd.daemon.deliveries import Deliveries
from adaptd.errors import ClaimRefused, DropChanged, StoreBusy
from adaptd.intake import claiming, moving
from adaptd.intake.scanner import Drop, Scan
from adaptd.intake.settling import DropState
from adaptd.intake.tree import Tree
from adaptd.project.layers import Project
from adaptd.project.settings import IntakeSettings, PathsSettings, Settings
from adaptd.records import DomainState
from adaptd.store import NewDrop, NewEpisode, Store
from adaptd.store.migrate import upgrade

SETTLE_SECONDS = 5.0


class Killed(BaseException):
    """The process is gone: nothing after this is done."""


class Shop:
    """A project with an inbox, a store and a clock that a test moves."""

    def __init__(self, root: Path, inbox: Path, mode: str = "claim") -> None:
        intake = IntakeSettings(settle_seconds=SETTLE_SECONDS, mode=mode)
        self.project = Project(root, Settings(paths=PathsSettings(inbox=str(inbox)), intake=intake), {})
        self.inbox, self.state, self.now = inbox, root / "state", 1000.0
        inbox.mkdir(exist_ok=True)
        self.state.mkdir()
        upgrade(f"sqlite:///{self.state / 'adaptd.db'}", root / "backups")
        self.store = Store(self.state / "adaptd.db", 1.0)
        self.start()

    def start(self) -> None:
        """Begin as a new process does, from what is on the disk."""
        self.arrivals = Arrivals(self.project, self.store, lambda: self.now)

    def drop(self, name: str, *files: str) -> Path:
        """Files in a folder of the inbox."""
        folder = self.inbox / name
        for file in files or ("1.jpg", "2.jpg"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(file)
        return folder

    def look(self, seconds: float = 0.0, *, may_claim: bool = True) -> None:
        """Look after some time."""
        self.now += seconds
        self.arrivals.look(may_claim=may_claim)

    def settle(self) -> None:
        """Look until what lies there is complete, and is taken."""
        self.look()
        self.look(SETTLE_SECONDS)

    def domains(self) -> dict[str, str]:
        """Domains and their states."""
        with self.store.reading() as tx:
            return {domain.name: str(domain.state) for domain in tx.domains.list_all()}

    def set_state(self, name: str, state: DomainState, reason: str | None = None) -> None:
        """Let a domain be in a state, as after an import, an episode or a command."""
        with self.store.writing() as tx:
            domain = tx.domains.find(name) or tx.domains.add(name, state)
            tx.domains.set_state(domain.id, state, reason)
            if state is DomainState.DONE:
                tx.domains.place(domain.id)

    def drops(self) -> list[tuple[int, str, int]]:
        """Number, path and files of all drops."""
        with self.store.reading() as tx:
            return [(drop.number, drop.path, drop.files) for drop in tx.drops.list_all()]

    def events(self) -> list[str]:
        """What happened so far."""
        with self.store.reading() as tx:
            return [event.message for event in reversed(tx.events.list_latest(100))]

    def claimed(self, path: str = "domains/1/1") -> list[str]:
        """The files of a claimed drop."""
        return sorted(file.name for file in (self.state / path).iterdir())


@pytest.fixture(autouse=True)
def _patient(monkeypatch) -> None:
    """A turn takes all there is, however slow the disk is."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Inbox and state on one disk."""
    shop = Shop(tmp_path, tmp_path / "inbox")
    with shop.store:
        yield shop


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[Shop]:
    """The inbox on another disk."""
    if not os.access("/dev/shm", os.W_OK) or Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm on a filesystem of its own")
    inbox = Path(tempfile.mkdtemp(prefix="adaptd-test-", dir="/dev/shm"))
    shop = Shop(tmp_path, inbox)
    with shop.store:
        yield shop
    shutil.rmtree(inbox)


@pytest.fixture
def in_place(tmp_path: Path) -> Iterator[Shop]:
    """Drops are read where they lie."""
    shop = Shop(tmp_path, tmp_path / "inbox", "in-place")
    with shop.store:
        yield shop


def scanned(state: DropState, fingerprint: str = "f") -> Scan:
    """A scan that shows one folder."""
    tree = Tree(fingerprint, 1, 1, ready=False, temporary={})
    return Scan((Drop(Path("/inbox/a"), "a", state, "", tree),), (), 0.0)


S = ArrivalState


@pytest.mark.parametrize(
    ("before", "scan", "now", "after"),
    [
        (None, scanned(DropState.ARRIVING), 0, [S.ARRIVING]),
        (None, scanned(DropState.SETTLED), 0, [S.SETTLED]),
        (S.ARRIVING, scanned(DropState.SETTLED), 0, [S.SETTLED]),
        (S.SETTLED, scanned(DropState.ARRIVING), 0, [S.ARRIVING]),
        (S.SETTLED, Scan((), (), 0.0), 0, []),
        (S.REFUSED, scanned(DropState.SETTLED), 29, [S.REFUSED]),
        (S.REFUSED, scanned(DropState.ARRIVING), 31, [S.REFUSED]),
        (S.REFUSED, scanned(DropState.SETTLED), 30, [S.SETTLED]),
        (S.REFUSED, Scan((), (), 0.0), 0, []),
        (S.IN_PLACE, scanned(DropState.SETTLED), 0, [S.IN_PLACE]),
        (S.IN_PLACE, scanned(DropState.ARRIVING, "other"), 0, [S.ARRIVING]),
        (S.RECORDED, scanned(DropState.ARRIVING), 0, [S.RECORDED]),
        (S.CLAIMING, scanned(DropState.ARRIVING), 0, [S.CLAIMING]),
        (S.CLAIMING, Scan((), (), 0.0), 0, [S.CLAIMING]),
        (S.CLAIMED, scanned(DropState.ARRIVING), 0, [S.ARRIVING]),
        (S.CLAIMED, Scan((), (), 0.0), 0, []),
    ],
)
def test_what_a_scan_makes_of_a_folder(before, scan, now, after):
    """The transitions that a scan decides, from every state; what is being moved is nobody's to touch."""
    (drop,) = scanned(DropState.SETTLED).drops
    known = [] if before is None else [Arrival(drop, before, retry_at=30)]
    assert [arrival.state for arrival in see(known, scan, now)] == after


def test_from_first_sight_to_claim(shop):
    """Seen, its domain is arriving; complete, it is a row and a folder of ours, and the domain is settled."""
    shop.drop("Camera 7")
    shop.look()
    assert (shop.domains(), shop.drops()) == ({"Camera 7": "arriving"}, [])
    assert not shop.arrivals.is_quiet
    shop.look(SETTLE_SECONDS)
    assert (shop.domains(), shop.drops()) == ({"Camera 7": "settled"}, [(1, "domains/1/1", 2)])
    assert shop.claimed() == ["1.jpg", "2.jpg"]
    assert list(shop.inbox.iterdir()) == []
    assert shop.events() == ["Camera 7 is arriving", "Camera 7: 2 files came as drop 1"]
    assert shop.arrivals.is_quiet


def test_what_a_drop_waits_for_is_told(shop):
    """The temporary file that holds it up, by its name."""
    shop.drop("camera")
    (shop.inbox / "camera" / "3.jpg.part").write_bytes(b"half")
    shop.look()
    assert shop.arrivals.waiting == {"camera": "still changing"}
    shop.look(SETTLE_SECONDS)
    assert shop.arrivals.waiting == {"camera": "waiting for temporary file '3.jpg.part'"}
    (shop.inbox / "camera" / "3.jpg.part").rename(shop.inbox / "camera" / "3.jpg")
    shop.look(SETTLE_SECONDS)
    shop.look(SETTLE_SECONDS)
    assert shop.arrivals.waiting == {}


@pytest.mark.parametrize("state", [DomainState.REFUSED, DomainState.FAILED])
def test_more_images_are_another_try(shop, state):
    """After a refusal or a failure a further drop is imported together with what came before it; its reason stays."""
    shop.drop("camera")
    shop.settle()
    with shop.store.writing() as tx:
        episode = tx.episodes.add(NewEpisode(1, "guarded", 0, {}, "0" * 64))
        tx.drops.take_in([1], 1)
        tx.episodes.give_up(episode.id, "it looks like one class")
    shop.set_state("camera", state, "it looks like one class")
    shop.drop("camera", "3.jpg")
    shop.settle()
    assert shop.domains() == {"camera": "settled"}
    with shop.store.reading() as tx:
        assert [drop.number for drop in tx.drops.list_waiting(1)] == [1, 2]
        assert tx.episodes.get(episode.id).reason == "it looks like one class"


def test_two_folders_are_two_domains(shop):
    """However much their names look alike."""
    shop.drop("camera-7", "1.jpg")
    shop.drop("Camera 7", "2.jpg", "3.jpg")
    shop.settle()
    assert shop.domains() == {"camera-7": "settled", "Camera 7": "settled"}
    assert sorted(shop.drops()) == [(1, "domains/1/1", 2), (1, "domains/2/1", 1)]


@pytest.mark.parametrize(("folder", "origin"), [("Camera 7", "/elsewhere/inbox/Camera 7"), ("Camera 7", None)])
def test_a_folder_goes_on_feeding_the_domain_it_fed(shop, folder, origin):
    """In a project of an older adaptd, `Camera 7` is `camera-7`; another folder that would have been is a domain of its own."""
    shop.set_state("camera-7", DomainState.DONE)
    with sqlite3.connect(shop.state / "adaptd.db") as database:
        database.execute("UPDATE domains SET old_spelling = 1")
    database.close()
    if origin is not None:
        with shop.store.writing() as tx:
            drop = tx.drops.add(NewDrop(1, 1, "domains/1/1", origin, "", 1, 1))
            tx.drops.take_in([drop.id], 1)
    shop.drop(folder, "1.jpg")
    shop.settle()
    assert shop.domains() == {"camera-7": "settled"}
    shop.drop("CAMERA 7", "2.jpg")
    shop.settle()
    assert shop.domains() == {"camera-7": "settled", "CAMERA 7": "settled"}


def test_the_row_comes_before_the_rename(shop, monkeypatch):
    """When the folder moves, the store has its row."""
    rows = []
    claim = claiming.claim_by_rename
    monkeypatch.setattr(claiming, "claim_by_rename", lambda *order: rows.extend(shop.drops()) or claim(*order))
    shop.drop("camera")
    shop.settle()
    assert rows == [(1, "domains/1/1", 2)]


def test_without_room_nothing_is_claimed(shop):
    """What is complete waits in the inbox until it may be claimed."""
    shop.drop("camera")
    shop.look()
    shop.look(SETTLE_SECONDS, may_claim=False)
    assert (shop.domains(), shop.drops(), shop.arrivals.is_quiet) == ({"camera": "arriving"}, [], False)
    shop.look()
    assert shop.domains() == {"camera": "settled"}


def test_what_vanishes_is_not_arriving_any_more(shop):
    """A new domain is skipped, one that is done is done again."""
    shop.set_state("old", DomainState.DONE)
    for name in ("old", "new"):
        shop.drop(name)
    shop.look()
    assert shop.domains() == {"old": "arriving", "new": "arriving"}
    for name in ("old", "new"):
        shutil.rmtree(shop.inbox / name)
    shop.look()
    assert shop.domains() == {"old": "done", "new": "skipped"}


def test_what_vanished_between_two_processes_is_not_arriving_any_more(shop):
    """The store's word for it is checked against the inbox after a start."""
    shop.drop("camera")
    shop.look()
    shutil.rmtree(shop.inbox / "camera")
    shop.start()
    shop.look()
    assert shop.domains() == {"camera": "skipped"}


def test_an_inbox_that_is_away_changes_nothing(shop):
    """It is an alarm; what was arriving is still arriving, and goes on when the inbox is back."""
    shop.drop("camera")
    shop.look()
    shop.inbox.rename(shop.inbox.with_name("away"))
    shop.look(SETTLE_SECONDS)
    assert (shop.arrivals.is_available, shop.domains()) == (False, {"camera": "arriving"})
    assert "is not available" in shop.arrivals.warnings[0]
    assert shop.arrivals.is_quiet, "nothing can come from there"
    shop.inbox.with_name("away").rename(shop.inbox)
    shop.look()
    assert (shop.domains(), shop.arrivals.warnings) == ({"camera": "settled"}, ())


def test_a_drop_for_a_domain_at_work_waits(shop):
    """A queued episode keeps its domain's state; the drop is ours all the same."""
    shop.set_state("camera", DomainState.QUEUED)
    with shop.store.writing() as tx:
        tx.episodes.add(NewEpisode(1, "guarded", 0, {}, "hash"))
    shop.drop("camera")
    shop.settle()
    assert (shop.domains(), shop.claimed()) == ({"camera": "queued"}, ["1.jpg", "2.jpg"])


@pytest.mark.parametrize("before", [DomainState.FAILED, DomainState.SKIPPED, DomainState.DONE])
@pytest.mark.parametrize("problem", [ClaimRefused("in use"), OSError(errno.EIO, "broken")])
def test_a_refused_drop_is_tried_again(shop, monkeypatch, before, problem):
    """A person is told, the row is gone, the domain is what it was; later it is claimed."""
    shop.set_state("camera", before, "why")
    shop.drop("camera")
    shop.look()
    seen = shop.domains()
    with monkeypatch.context() as patch:
        patch.setattr(claiming, "claim_by_rename", refuse(problem))
        shop.look(SETTLE_SECONDS)
        assert (shop.domains(), shop.drops(), shop.arrivals.warnings) == (seen, [], (str(problem),))
        assert shop.arrivals.is_quiet, "--drain does not wait for it"
    shop.look(REFUSED_SECONDS - 1)
    assert shop.drops() == []
    shop.look(1)
    assert (shop.domains(), shop.arrivals.warnings) == ({"camera": "settled"}, ())


def refuse(problem):
    """A claim that fails."""

    def claim(*_, **__):
        raise problem

    return claim


def test_one_that_is_refused_does_not_hold_up_the_others(shop, monkeypatch):
    """Each is tried for itself."""
    claim = claiming.claim_by_rename
    monkeypatch.setattr(
        claiming,
        "claim_by_rename",
        lambda folder, *rest: refuse(ClaimRefused("in use"))() if folder.name == "a" else claim(folder, *rest),
    )
    shop.drop("a")
    shop.drop("b")
    shop.settle()
    assert shop.domains() == {"a": "arriving", "b": "settled"}


def test_a_drop_that_changed_settles_anew(shop, monkeypatch):
    """Nobody is told, and the next scans decide."""
    shop.drop("camera")
    with monkeypatch.context() as patch:
        patch.setattr(claiming, "claim_by_rename", refuse(DropChanged("it changed")))
        shop.settle()
        assert (shop.domains(), shop.drops(), shop.arrivals.warnings) == ({"camera": "arriving"}, [], ())
    shop.look()
    assert shop.domains() == {"camera": "settled"}


def test_a_full_disk_is_the_intakes_trouble(shop, monkeypatch):
    """It is raised, the drop is where it was, and it is tried again without a wait of its own."""
    shop.drop("camera")
    with monkeypatch.context() as patch:
        patch.setattr(claiming, "claim_by_rename", refuse(OSError(errno.ENOSPC, "full")))
        shop.look()
        with pytest.raises(OSError, match="full"):
            shop.look(SETTLE_SECONDS)
    assert (shop.domains(), shop.drops()) == ({"camera": "arriving"}, [])
    shop.look()
    assert shop.domains() == {"camera": "settled"}


def test_a_disk_that_fails_after_the_rename(shop, monkeypatch):
    """A sync that failed is not asked again: the drop goes back, and is renamed anew later."""
    folder = shop.drop("camera")
    with monkeypatch.context() as patch:
        patch.setattr(claiming, "sync_descriptor", refuse(OSError(errno.EIO, "broken")))
        shop.settle()
    assert (shop.domains(), shop.drops(), folder.is_dir()) == ({"camera": "arriving"}, [], True)
    assert "broken" in shop.arrivals.warnings[0]
    shop.look(REFUSED_SECONDS)
    assert (shop.domains(), shop.drops()) == ({"camera": "settled"}, [(1, "domains/1/1", 2)])


@pytest.mark.parametrize("method", ["announce", "add", "confirm"])
def test_a_locked_database(shop, monkeypatch, method):
    """Whatever could not be written is written by the next look."""
    shop.drop("camera")
    with monkeypatch.context() as patch:
        patch.setattr(Deliveries, method, refuse(StoreBusy("locked")))
        with pytest.raises(StoreBusy):
            shop.settle()
    shop.settle()
    assert (shop.domains(), shop.drops()) == ({"camera": "settled"}, [(1, "domains/1/1", 2)])
    assert shop.events() == ["camera is arriving", "camera: 2 files came as drop 1"]


def test_a_locked_database_after_a_refusal(shop, monkeypatch):
    """The domain of a refused drop is what it was, a look later."""
    shop.set_state("camera", DomainState.FAILED, "why")
    shop.drop("camera")
    monkeypatch.setattr(claiming, "claim_by_rename", refuse(ClaimRefused("in use")))
    with monkeypatch.context() as patch:
        patch.setattr(Deliveries, "remove", refuse(StoreBusy("locked")))
        with pytest.raises(StoreBusy):
            shop.settle()
    assert shop.domains() == {"camera": "arriving"}
    shop.look()
    assert (shop.domains(), shop.drops(), shop.arrivals.warnings) == ({"camera": "failed"}, [], ("in use",))


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (module, "begin_claim"),
        (claiming, "make_folder"),
        (claiming, "sync_descriptor"),
        (Deliveries, "confirm"),
        (Deliveries, "announce"),
    ],
)
def test_a_start_after_a_kill(shop, monkeypatch, where, name):
    """Killed before the row, the rename or the end: the next process finishes it, once."""
    shop.drop("camera")
    with monkeypatch.context() as patch:
        patch.setattr(where, name, refuse(Killed()))
        with pytest.raises(Killed):
            shop.settle()
    shop.start()
    shop.settle()
    assert (shop.domains(), shop.drops()) == ({"camera": "settled"}, [(1, "domains/1/1", 2)])
    assert (shop.claimed(), list(shop.inbox.iterdir())) == (["1.jpg", "2.jpg"], [])
    assert shop.events() == ["camera is arriving", "camera: 2 files came as drop 1"]


def test_a_start_leaves_what_waits_alone(shop):
    """A drop that waits for more images is claimed, and its domain keeps its reason."""
    shop.drop("camera")
    shop.settle()
    shop.set_state("camera", DomainState.SETTLED, "too few images")
    shop.start()
    shop.look()
    with shop.store.reading() as tx:
        assert tx.domains.get_named("camera").reason == "too few images"
    assert len(shop.events()) == 2


def test_a_start_after_a_kill_with_an_earlier_drop_waiting(shop, monkeypatch):
    """Only the newest was cut short; the earlier one did not come again."""
    shop.drop("camera")
    shop.settle()
    shop.set_state("camera", DomainState.SETTLED, "too few images")
    shop.drop("camera", "3.jpg")
    with monkeypatch.context() as patch:
        patch.setattr(Deliveries, "confirm", refuse(Killed()))
        with pytest.raises(Killed):
            shop.settle()
    shop.start()
    shop.look()
    assert (shop.domains(), shop.claimed("domains/1/2")) == ({"camera": "settled"}, ["3.jpg"])
    assert shop.events()[1:] == ["camera: 2 files came as drop 1", "camera: 1 file came as drop 2"]


def wait_for_copy() -> None:
    """Until the thread that copies is done."""
    for thread in threading.enumerate():
        if thread.name == "copying":
            thread.join(30)


def test_copies_are_made_beside_the_loop(two_disks, monkeypatch):
    """Looks go on while one drop is copied; the next one waits for its turn."""
    may_copy, copy_tree = threading.Event(), moving.copy_tree
    monkeypatch.setattr(moving, "copy_tree", lambda *paths: may_copy.wait(30) and copy_tree(*paths))
    two_disks.drop("a")
    two_disks.drop("b")
    two_disks.settle()
    two_disks.look(1)
    assert (two_disks.domains(), len(two_disks.drops())) == ({"a": "arriving", "b": "arriving"}, 1)
    assert not two_disks.arrivals.is_quiet
    may_copy.set()
    for _ in range(2):
        wait_for_copy()
        two_disks.look()
    assert two_disks.domains() == {"a": "settled", "b": "settled"}
    assert list(two_disks.inbox.iterdir()) == []


def test_a_domain_is_not_imported_while_its_next_drop_is_copied(two_disks, monkeypatch):
    """An import would find no more than before, again and again; when the copy is done it finds all."""
    two_disks.drop("camera")
    two_disks.settle()
    wait_for_copy()
    two_disks.look()
    may_copy, copy_tree = threading.Event(), moving.copy_tree
    monkeypatch.setattr(moving, "copy_tree", lambda *paths: may_copy.wait(30) and copy_tree(*paths))
    two_disks.drop("camera", "3.jpg")
    two_disks.settle()
    two_disks.set_state("camera", DomainState.SETTLED)  # as `wait_for_more` leaves it where another drop has a row
    for is_copied in (False, True):
        with two_disks.store.reading() as tx:
            assert bool(queue._find_import(tx, two_disks.arrivals.moving)) == is_copied
        may_copy.set()
        wait_for_copy()
        two_disks.look()


def test_a_domain_that_is_cancelled_while_it_is_copied(two_disks, monkeypatch):
    """It stays cancelled, its files are ours, and a retry takes them up."""
    may_copy, copy_tree = threading.Event(), moving.copy_tree
    monkeypatch.setattr(moving, "copy_tree", lambda *paths: may_copy.wait(30) and copy_tree(*paths))
    two_disks.drop("camera")
    two_disks.settle()
    cancel(two_disks.store, "camera")
    may_copy.set()
    wait_for_copy()
    two_disks.look()
    assert (two_disks.domains(), two_disks.claimed()) == ({"camera": "skipped"}, ["1.jpg", "2.jpg"])
    retry(two_disks.store, "camera", Settings())
    assert two_disks.domains() == {"camera": "settled"}


def test_what_was_copied_but_cannot_be_removed(two_disks, monkeypatch):
    """It belongs to its drop: others are taken, it is told, tried again, and given up after three times, until it works."""
    with monkeypatch.context() as patch:
        for where in (moving, claiming):
            patch.setattr(where, "remove_copied", refuse(OSError(errno.EBUSY, "busy")))
        two_disks.drop("camera")
        two_disks.settle()
        wait_for_copy()
        two_disks.look()
        assert (two_disks.domains(), two_disks.arrivals.is_quiet) == ({"camera": "arriving"}, True)
        assert "camera: drop 1 cannot be taken in full" in two_disks.arrivals.warnings[0]
        patch.undo()
        patch.setattr(claiming, "remove_copied", refuse(OSError(errno.EBUSY, "busy")))
        two_disks.drop("other")
        two_disks.settle()
        wait_for_copy()
        for _ in range(3):
            two_disks.look(DELAYED_SECONDS[1])
        assert two_disks.domains() == {"camera": "failed", "other": "settled"}
        assert two_disks.events()[-1].endswith("`adaptd retry camera` goes on with what is here")
    two_disks.start()
    two_disks.look()
    assert (two_disks.domains(), list(two_disks.inbox.iterdir())) == ({"camera": "failed", "other": "settled"}, [])


def test_a_link_that_came_in_place_of_a_drop_goes_back(shop):
    """Killed right after the rename, nobody looked at what came: the next start does."""
    folder = shop.drop("camera")
    shop.settle()
    (shop.state / "domains/1/1").rename(shop.inbox / "elsewhere")
    (shop.state / "domains/1/1").symlink_to(shop.inbox / "elsewhere")
    shop.start()
    shop.look()
    assert (shop.drops(), folder.is_symlink()) == ([], True)
    assert not os.path.lexists(shop.state / "domains/1/1")


def test_very_many_drops_are_taken_in_several_turns(shop, monkeypatch):
    """A turn ends after some time, whatever is left."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    for name in "abc":
        shop.drop(name)
    shop.settle()
    assert len(shop.drops()) == 1
    shop.look()
    shop.look()
    assert shop.domains() == {"a": "settled", "b": "settled", "c": "settled"}


def test_a_drop_that_does_not_fit_is_refused(two_disks, monkeypatch):
    """No row is written for it; with room it is taken."""
    two_disks.drop("camera")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
        two_disks.settle()
    assert two_disks.drops() == []
    (warning,) = two_disks.arrivals.warnings
    assert "does not fit on the disk of" in warning
    two_disks.look(REFUSED_SECONDS)
    wait_for_copy()
    two_disks.look()
    assert two_disks.domains() == {"camera": "settled"}


@pytest.mark.parametrize("step", ["copy_tree", "remove_copied"])
def test_a_start_after_a_kill_while_copying(two_disks, monkeypatch, step):
    """Killed in the copy it begins again; killed after it, what was copied is removed from the inbox."""
    two_disks.drop("camera")
    reached, is_over = threading.Event(), threading.Event()
    act = getattr(moving, step)

    def stand_still(*paths):
        if step == "copy_tree":
            act(*paths)
        reached.set()
        is_over.wait(30)
        raise OSError(errno.EIO, "the process is gone")

    with monkeypatch.context() as patch:
        patch.setattr(moving, step, stand_still)
        two_disks.settle()
        assert reached.wait(30)
    two_disks.start()
    two_disks.settle()
    while two_disks.domains() != {"camera": "settled"}:
        is_over.wait(0.01)
        two_disks.look(0.01)
    assert two_disks.drops() == [(1, "domains/1/1", 2)]
    assert (two_disks.claimed(), list(two_disks.inbox.iterdir())) == (["1.jpg", "2.jpg"], [])
    assert [path.name for path in (two_disks.state / "domains/1").iterdir()] == ["1"]
    is_over.set()
    wait_for_copy()


def test_in_place(in_place):
    """Taken where it lies, once; after a start too; with other files it is the next drop."""
    folder = in_place.drop("camera")
    for _ in range(2):
        in_place.settle()
        assert (in_place.domains(), in_place.drops()) == ({"camera": "settled"}, [(1, str(folder), 2)])
        assert in_place.arrivals.is_quiet
        in_place.start()
    in_place.drop("camera", "3.jpg")
    in_place.settle()
    assert in_place.drops() == [(1, str(folder), 2), (2, str(folder), 3)]
    assert sorted(file.name for file in folder.iterdir()) == ["1.jpg", "2.jpg", "3.jpg"]


def test_in_place_and_done(in_place):
    """A domain that has learned from a folder is done again once the folder is recognised after a start."""
    in_place.drop("camera")
    in_place.settle()
    in_place.set_state("camera", DomainState.DONE)
    with in_place.store.writing() as tx:
        tx.drops.take_in([1], 1)
    in_place.start()
    in_place.look()
    assert in_place.domains() == {"camera": "arriving"}
    in_place.look(SETTLE_SECONDS)
    assert (in_place.domains(), len(in_place.drops())) == ({"camera": "done"}, 1)


def test_a_start_after_a_kill_in_place(in_place, monkeypatch):
    """Killed between the row and the end: finished by the next process."""
    in_place.drop("camera")
    with monkeypatch.context() as patch:
        patch.setattr(Deliveries, "confirm", refuse(Killed()))
        with pytest.raises(Killed):
            in_place.settle()
    in_place.start()
    in_place.settle()
    assert (in_place.domains(), len(in_place.drops())) == ({"camera": "settled"}, 1)
