"""Row 18: what cannot be moved stays where it is and is told; all else goes on, at once and after a restart. Not as root."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.faults.conftest import LIBRARIES, OWNER, STRANGER, find_python
from tests.process.conftest import MANUAL, wait_until

MOUNTING = """
    mount -t tmpfs none "$1/mounted/sub" && cp "$1/mounted/1.png" "$1/mounted/sub/" && shift &&
    exec setpriv --reuid 65533 --regid 65533 --clear-groups "$@"
"""


@pytest.fixture
def owned(_trained_shop):
    """A project of a user who is not root, in a folder that he can reach."""
    if os.geteuid() != 0 or find_python() is None:
        pytest.skip("needs another user and an interpreter for him: run as root")
    if not all(map(shutil.which, ("unshare", "setpriv"))) or os.system("unshare -m true"):
        pytest.skip("needs unshare and setpriv, and the right to mount")
    root = Path(tempfile.mkdtemp(prefix="adaptd-owned-"))
    root.chmod(0o755)
    shop = _trained_shop.copy(root / "shop")
    yield shop
    shutil.rmtree(root)


def own(folder: Path, user: int = OWNER) -> None:
    """Give a whole tree to a user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def nest(folder: Path, length: int) -> None:
    """Folders inside each other, a path of this many bytes."""
    place = os.open(folder, os.O_RDONLY)
    for size in [200] * (length // 201) + [max(1, length % 201)]:
        os.mkdir("x" * size, dir_fd=place)
        deeper = os.open("x" * size, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = deeper
    os.close(place)


def test_each_trouble_stays_with_its_drop(owned, start, pictures):
    """A read-only folder, another's folder, a mount, a path too long: told by name, and others are imported."""
    inbox, waiting = owned.root / "inbox", owned.root / "waiting"
    for name in ("readonly", "foreign", "deep", "mounted", "good", "later"):
        shutil.copytree(pictures(0), waiting / name)
        (waiting / name / "sub").mkdir()
    for name in ("readonly", "foreign"):
        (waiting / name / "sub" / "junk.txt").write_text("no image")
    picture = next((waiting / "mounted").glob("*.png"))
    picture.rename(picture.with_name("1.png"))
    own(owned.root)
    (waiting / "readonly" / "sub").chmod(0o555)
    own(waiting / "foreign" / "sub", STRANGER)
    # Short enough for the inbox, too long for the folder it would be claimed into.
    nest(waiting / "deep", 4096 - len(os.fsencode(inbox / "deep")) - 12)
    os.chown(waiting / "deep", OWNER, OWNER)
    for name in ("readonly", "foreign", "deep", "mounted"):
        (waiting / name).rename(inbox / name)

    options = {"python": find_python(), "env": MANUAL | {"PYTHONPATH": LIBRARIES}}
    around = ("unshare", "-m", "sh", "-c", MOUNTING, "sh", str(inbox))
    daemon = start(owned, around=around, **options)
    daemon.until(readonly="queued", foreign="queued")
    (waiting / "good").rename(inbox / "good")
    daemon.until(good="queued")
    words = ("readonly: 1 files of drop 1 cannot be moved into quarantine", "foreign: 1 files", "mount point inside", "too long")

    def told() -> bool:
        warnings = "\n".join(owned.status()["daemon"]["warnings"])
        return all(word in warnings for word in words)

    wait_until(told, "status tells of every drop")
    assert "paths too long" in " ".join(owned.does("explain", "deep").stdout.split())
    assert daemon.stop() == 0

    daemon = start(owned, around=around, **options)
    (waiting / "later").rename(inbox / "later")
    daemon.until(later="queued")
    wait_until(told, "it is told again")
    assert daemon.stop() == 0
    assert sorted(path.name for path in inbox.iterdir()) == ["deep", "mounted"]
    assert owned.rows("SELECT count(*) FROM quarantine WHERE path IS NULL") == [(2,)]
    assert owned.rows("SELECT count(*) FROM events WHERE kind = 'drop-stuck'") == [(2,)]
    for folder in owned.state.glob("domains/*/1/sub"):
        folder.chmod(0o755)
        own(folder)
    drained = start(owned, "--drain", **options, around=around)
    assert (drained.end(), "paths too long" in drained.log.read_text()) == (1, True)
    assert owned.rows("SELECT count(*) FROM quarantine WHERE path IS NULL") == [(0,)]
