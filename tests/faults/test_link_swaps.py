"""Row 17: somebody who may write the inbox swaps folders and links while adaptd works. Nothing outside of it is touched."""

import json
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest
from PIL import Image

from adaptd.store import NewDrop, Store
from adaptd.store.migrate import upgrade
from tests.faults.conftest import OWNER, STRANGER, SWAPS, Ground

FILES, MANY = 60, 1500
"""In a folder that is swapped; many, where one of them takes no time."""


def content(folder: Path) -> dict[str, bytes]:
    """What is in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def trap(ground: Ground, drop: Path, *, suffix: str = "jpg", files: int = FILES) -> dict[str, bytes]:
    """A drop with `sub`, beside it a link to the owner's home, and the same names in both."""
    (drop / "sub").mkdir(parents=True)
    (drop / "link").symlink_to(ground.home)
    for number in range(files):
        (drop / "sub" / f"{number}.{suffix}").write_bytes(b"junk")
        (ground.home / f"{number}.{suffix}").write_bytes(b"precious")
    ground.give(STRANGER, drop)
    ground.give(OWNER, ground.home, 0o700)
    return content(ground.home)


def store_with_drop(ground: Ground, names: list[str], place: str = "") -> None:
    """A store with one claimed drop of the domain `cam`, and these of its files in quarantine."""
    upgrade(f"sqlite:///{ground.state / 'adaptd.db'}", ground.root)
    with Store(ground.state / "adaptd.db", 5.0) as store, store.writing() as tx:
        domain = tx.domains.add("cam", "settled")
        drop = tx.drops.add(NewDrop(domain.id, 1, "domains/1/1", str(ground.inbox / "cam"), "f", len(names), 1))
        for name in names:
            tx.quarantine.add(domain.id, name, "not-an-image", "junk", f"{place}/{name}" if place else None, drop.id)
    ground.give(OWNER, ground.state, 0o700)


QUARANTINE = """
    import sys, time
    from pathlib import Path
    from adaptd.imports.quarantine import move_to_quarantine
    from adaptd.project.layout import Layout
    from adaptd.store import Store
    state, seconds = Path(sys.argv[1]), float(sys.argv[2])
    end = time.monotonic() + seconds
    with Store(state / "adaptd.db", 5.0) as store:
        while True:
            move_to_quarantine(store, Layout(state))
            with store.reading() as tx:
                left = tx.quarantine.list_unmoved()
            if not left or time.monotonic() > end:
                break
            time.sleep(0.001)
    print(len(left))
"""


def test_a_sub_folder_while_junk_is_quarantined(ground, attack):
    """The drop was claimed, and its folders are still the stranger's: only what is in the drop goes to quarantine."""
    precious = trap(ground, ground.inbox / "cam", files=MANY)
    (ground.state / "domains" / "1").mkdir(parents=True)
    store_with_drop(ground, [f"sub/{number}.jpg" for number in range(MANY)])
    swapping = attack(ground.inbox / "cam", "sub", "link")
    (ground.inbox / "cam").rename(ground.state / "domains" / "1" / "1")
    ground.act(QUARANTINE, ground.state, SWAPS / 10_000)
    assert content(ground.home) == precious
    assert swapping.stop() >= SWAPS


CLAIM = """
    import os, sys
    from pathlib import Path
    from adaptd.errors import IntakeError
    from adaptd.intake.claiming import claim
    from adaptd.intake.tree import read_tree
    inbox, state, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    drop, claimed = inbox / "cam", 0
    for number in range(rounds):
        target = state / str(number)
        try:
            claim(drop, target, read_tree(drop).fingerprint)
        except (IntakeError, OSError):
            assert not os.path.lexists(target)
            continue
        assert not target.is_symlink(), "a link was claimed"
        assert (target / "1.jpg").read_bytes() == b"junk", "another folder was claimed"
        claimed += 1
        target.rename(drop)
    print(claimed)
"""


def test_a_whole_drop_between_look_and_claim(ground, attack):
    """What was renamed is looked at: a link goes back into the inbox, and never counts as claimed."""
    for folder, words in ((ground.inbox / "cam", b"junk"), (ground.home, b"precious")):
        folder.mkdir(exist_ok=True)
        (folder / "1.jpg").write_bytes(words)
    (ground.inbox / "other").symlink_to(ground.home)
    ground.give(STRANGER, ground.inbox / "cam")
    ground.give(OWNER, ground.home, 0o700)
    swapping = attack(ground.inbox, "cam", "other")
    ground.act(CLAIM, ground.inbox, ground.state, max(300, SWAPS // 10))
    assert swapping.stop() >= SWAPS
    assert content(ground.home) == {"1.jpg": b"precious"}
    assert sorted(path.name for path in ground.inbox.iterdir()) == ["cam", "other"]
    assert list(ground.state.iterdir()) == []


REMOVE = """
    import json, sys
    from pathlib import Path
    from adaptd.intake.moving import remove_copied
    drop, state, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    manifest = state / ".claimed-1.json"
    document = {"files": json.loads((state / "files.json").read_text()), "folders": [".", "sub"], "left": []}
    for number in range(rounds):
        manifest.write_text(json.dumps(document))
        remove_copied(drop, state / "1")
"""


def test_files_that_were_copied_to_another_filesystem(ground, attack):
    """Removed from the inbox is what was copied from it, not what is called so elsewhere, be it byte for byte the same."""
    if Path("/dev/shm").stat().st_dev == ground.root.stat().st_dev:
        pytest.skip("needs /dev/shm on a filesystem of its own")
    state = Path(tempfile.mkdtemp(prefix="adaptd-faults-", dir="/dev/shm"))
    try:
        precious, files = trap(ground, ground.inbox / "cam", files=MANY // 5), []
        for number in range(MANY // 5):
            for folder in (ground.inbox / "cam" / "sub", ground.home):
                (folder / f"{number}.jpg").write_bytes(b"precious")
                os.utime(folder / f"{number}.jpg", ns=(10**18, 10**18))
            digest = sha256(b"precious").hexdigest()
            files.append({"path": f"sub/{number}.jpg", "size": 8, "mtime_ns": 10**18, "inode": 0, "sha256": digest})
        (state / "files.json").write_text(json.dumps(files))
        ground.give(OWNER, state, 0o700)
        swapping = attack(ground.inbox / "cam", "sub", "link")
        ground.act(REMOVE, ground.inbox / "cam", state, max(20, SWAPS // 100))
        assert swapping.stop() >= SWAPS
        assert content(ground.home) == precious
    finally:
        shutil.rmtree(state)


RESTORE = """
    import sys
    from pathlib import Path
    from adaptd.care.restore import give_back
    from adaptd.project.layout import Layout
    from adaptd.store import Store
    inbox, state = Path(sys.argv[1]), Path(sys.argv[2])
    with Store(state / "adaptd.db", 5.0) as store:
        with store.reading() as tx:
            items = tx.quarantine.list_all()
        for item in items:
            for _ in range(int(sys.argv[3])):
                try:
                    give_back(store, Layout(state), inbox, [item])
                    break
                except OSError:
                    pass
"""


def test_a_folder_that_files_are_given_back_to(ground, attack):
    """`quarantine restore` writes into the inbox or not at all."""
    (ground.inbox / "cam").mkdir()
    (ground.inbox / "other").symlink_to(ground.home)
    ground.give(STRANGER, ground.inbox / "cam")
    names = [f"{number}.txt" for number in range(FILES)]
    place = ground.state / "quarantine" / "cam" / "1"
    place.mkdir(parents=True)
    for name in names:
        (place / name).write_text(name)
    store_with_drop(ground, names, "quarantine/cam/1")
    swapping = attack(ground.inbox, "cam", "other")
    ground.act(RESTORE, ground.inbox, ground.state, max(3, SWAPS // 3000))
    assert swapping.stop() >= SWAPS
    assert content(ground.home) == {}
    given = ground.inbox / ("other" if (ground.inbox / "cam").is_symlink() else "cam")
    left = {path.name for path in place.iterdir()} if place.exists() else set()
    assert {path.name for path in given.iterdir()} | left == set(names)


DECODE = """
    import sys
    from pathlib import Path
    from adaptd.library.draft import decode_files
    from adaptd.library.folders import list_drop
    from adaptd.library.preprocessing import Limits, Preprocessing
    drop, state, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    for _ in range(rounds):
        files = list_drop(drop).train
        for file in files:
            print("listed", file.path.name)
        with decode_files(files, state, Preprocessing(32), Limits(10**6, 10**6)) as draft:
            for image in draft.images:
                print("read", image.width)
"""


def test_a_sub_folder_while_images_are_decoded(ground, attack):
    """No image of the owner's home is listed or read, though a path leads there half of the time."""
    trap(ground, ground.inbox / "cam", suffix="png")
    for number in range(FILES):
        Image.new("RGB", (20, 20), (number, 0, 0)).save(ground.inbox / "cam" / "sub" / f"{number}.png")
        Image.new("RGB", (30, 30), (number, 9, 9)).save(ground.home / f"{number}.png")
    (ground.home / "only-here.png").write_bytes(b"")
    ground.give(OWNER, ground.home, 0o700)
    swapping = attack(ground.inbox / "cam", "sub", "link")
    found = set(ground.act(DECODE, ground.inbox / "cam", ground.state, max(2, SWAPS // 2500)).splitlines())
    assert swapping.stop() >= SWAPS
    assert "listed only-here.png" not in found
    assert "read 30" not in found
