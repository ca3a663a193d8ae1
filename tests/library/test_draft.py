"""Many files, some of them hostile, become caches; no file takes the others or the parent with it."""

import errno
import os
import resource
import signal
import struct
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adaptd.errors import CacheUnusable
from adaptd.library.cache import UNFINISHED, damaged_rows, open_cache
from adaptd.library.decode import decode_file
from adaptd.library.draft import decode_files
from adaptd.library.folders import list_domain, list_source
from adaptd.library.preprocessing import Limits
from adaptd.project.settings import IntakeSettings


def number(images):
    """Each image with an id."""
    return [(image, 100 + position) for position, image in enumerate(images)]


def decoder_pids():
    """Decoding processes that this process started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and b"adaptd.library.decoder" in command:
            found.append(int(status.parent.name))
    return found


def black_png(width, height):
    """A PNG that costs far more to decode than to send."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    content = zlib.compress(bytes((3 * width + 1) * height), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def test_new_formats_in_limited_decoders(tmp_path, encode, preprocessing):
    """A telephone's HEIC and an AVIF of three million pixels are decoded within the default allowance; half a file is not."""
    photo = Image.linear_gradient("L").resize((2000, 1500)).convert("RGB")
    files = {"a.heic": encode(photo, "HEIF", quality=30), "b.avif": encode(photo, "AVIF", quality=30, speed=10)}
    files["c.heic"] = files["a.heic"][: len(files["a.heic"]) // 2]
    (tmp_path / "phone").mkdir()
    for name, data in files.items():
        (tmp_path / "phone" / name).write_bytes(data)
    with decode_files(list_domain(tmp_path / "phone").train, tmp_path / "cache", preprocessing, Limits()) as draft:
        assert [(image.file.name, image.width, image.height) for image in draft.images] == [
            ("a.heic", 2000, 1500),
            ("b.avif", 2000, 1500),
        ]
        assert [item.file.name for item in draft.rejected] == ["c.heic"]


def test_round_trip(photos, tmp_path, preprocessing, limits):
    """What is sealed comes back as a read-only map, row for row what a single decoding gives."""
    found, seen = list_source(photos).train, []
    cache = tmp_path / "cache" / "7"
    with decode_files(found, cache.parent, preprocessing, limits, lambda *done: seen.append(done)) as draft:
        assert [image.file for image in draft.images] == list(found)
        draft.seal(cache, number(draft.images), labels=[0] * 20 + [1] * 20)
    opened = open_cache(cache, preprocessing)
    assert seen == [(done, 40) for done in range(1, 41)]
    assert opened.images.ids.tolist() == list(range(100, 140))
    assert opened.images.labels.tolist() == [0] * 20 + [1] * 20
    assert not opened.images.pixels.flags.writeable
    assert isinstance(opened.images.pixels, np.memmap)
    for row, file in enumerate(found):
        alone = decode_file(file.path, preprocessing, limits)
        assert (opened.images.pixels[row] == alone.pixels).all()
        assert opened.index.sha256[row] == alone.sha256
    assert damaged_rows(opened) == ()
    assert list(cache.parent.iterdir()) == [cache]


def test_one_decoding_many_caches(photos, tmp_path, preprocessing, limits):
    """A draft can be sealed in parts and in any order, without decoding again."""
    with decode_files(list_source(photos).train, tmp_path, preprocessing, limits) as draft:
        named = number(draft.images)
        draft.seal(tmp_path / "whole", named)
        draft.seal(tmp_path / "odd", named[1::2])
        draft.seal(tmp_path / "backwards", named[::-1])
        draft.seal(tmp_path / "nothing", [])
    whole = open_cache(tmp_path / "whole").images
    assert (open_cache(tmp_path / "odd").images.pixels == whole.pixels[1::2]).all()
    assert (open_cache(tmp_path / "backwards").images.pixels == whole.pixels[::-1]).all()
    assert damaged_rows(open_cache(tmp_path / "backwards")) == ()
    assert len(open_cache(tmp_path / "nothing").images) == 0


def test_a_cache_is_never_overwritten(photos, tmp_path, preprocessing, limits):
    """Sealing where a cache stands is an error and leaves it as it is."""
    with decode_files(list_source(photos).train, tmp_path / "c", preprocessing, limits) as draft:
        draft.seal(tmp_path / "c" / "x", number(draft.images))
        with pytest.raises(CacheUnusable, match="never overwritten"):
            draft.seal(tmp_path / "c" / "x", number(draft.images)[:3])
    assert len(open_cache(tmp_path / "c" / "x").images) == 40


def test_bad_files_are_data(photos, tmp_path, preprocessing, limits):
    """Rejections name file and reason, duplicates their original, and the good ones are all there."""
    (photos / "a-copy.jpg").write_bytes((photos / "cat/03.jpg").read_bytes())
    (photos / "empty.png").touch()
    (photos / "cut.jpg").write_bytes((photos / "cat/04.jpg").read_bytes()[:-300])
    (photos / "text.jpg").write_text("no picture")
    (photos / "link.jpg").symlink_to("cat/05.jpg")
    (photos / os.fsdecode(b"\xff\n.jpg")).write_bytes((photos / "cat/06.jpg").read_bytes() + b"tail")
    os.mkfifo(photos / "fifo.jpg")
    with decode_files(list_domain(photos).train, tmp_path / "c", preprocessing, limits) as draft:
        assert {bad.file.name: bad.reason for bad in draft.rejected} == {
            "cut.jpg": "truncated",
            "empty.png": "empty",
            "fifo.jpg": "not-a-file",
            "link.jpg": "not-a-file",
            "text.jpg": "not-an-image",
        }
        assert [(twice.file.name, twice.original.name) for twice in draft.duplicates] == [("cat/03.jpg", "a-copy.jpg")]
        assert len(draft.images) == 41
        draft.seal(tmp_path / "c" / "x", number(draft.images))
    assert damaged_rows(open_cache(tmp_path / "c" / "x")) == ()


def test_nothing_to_decode(tmp_path, preprocessing, limits):
    """No files give an empty draft."""
    with decode_files([], tmp_path, preprocessing, limits) as draft:
        assert (draft.images, draft.rejected, draft.duplicates) == ((), (), ())


def test_a_slow_file_ends_its_decoder_only(photos, tmp_path, preprocessing):
    """A picture that takes too much processor time is refused for it; the others are decoded."""
    (photos / "slow.png").write_bytes(black_png(6000, 6000))
    tight = Limits(max_seconds=0.1)
    with decode_files(list_domain(photos).train, tmp_path / "c", preprocessing, tight) as draft:
        assert [(bad.file.name, bad.reason) for bad in draft.rejected] == [("slow.png", "too-costly")]
        assert len(draft.images) == 40


def test_killed_decoders_lose_nothing(photos, tmp_path, preprocessing, limits):
    """Whoever kills a decoder mid-way, every file is decoded in the end."""
    killed = []

    def kill_one(done, total):
        if done in {3, 12, 20} and (pids := decoder_pids()):
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])

    with decode_files(list_source(photos).train, tmp_path / "c", preprocessing, limits, kill_one) as draft:
        assert killed
        assert draft.rejected == ()
        assert len(draft.images) == 40
        draft.seal(tmp_path / "c" / "x", number(draft.images))
    assert damaged_rows(open_cache(tmp_path / "c" / "x")) == ()
    assert decoder_pids() == []


def test_a_file_that_kills_twice_is_blamed(tmp_path, preprocessing):
    """A file on which two decoders died is refused as crashing, and the rest goes on."""
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop/a.png").write_bytes(black_png(6900, 6900))
    (tmp_path / "drop/b.png").write_bytes(black_png(3, 3))
    deaths = []

    def kill_whoever_decodes():
        # A large picture takes long enough to be met twice; the small one is done in no time.
        deadline = time.monotonic() + 20
        while len(deaths) < 2 and time.monotonic() < deadline:
            for pid in set(decoder_pids()) - set(deaths):
                if resident_bytes(pid) > 120_000_000:
                    os.kill(pid, signal.SIGKILL)
                    deaths.append(pid)

    killer = threading.Thread(target=kill_whoever_decodes)
    killer.start()
    with decode_files(list_domain(tmp_path / "drop").train, tmp_path / "c", preprocessing, Limits()) as draft:
        killer.join()
        assert [(bad.file.name, bad.reason) for bad in draft.rejected] == [("a.png", "crashed")]
        assert [image.file.name for image in draft.images] == ["b.png"]
    assert len(deaths) == 2


def resident_bytes(pid):
    """Memory a process really uses."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def test_secrets_stay_with_the_parent(photos, tmp_path, preprocessing, limits, monkeypatch):
    """A decoder does not get the parent's environment."""
    monkeypatch.setenv("ADAPTD_DATABASE__URL", "postgresql://user:password@host/name")
    seen = []

    def look(done, total):
        seen.extend(Path(f"/proc/{pid}/environ").read_bytes() for pid in decoder_pids() if done == 1)

    with decode_files(list_source(photos).train, tmp_path / "c", preprocessing, limits, look):
        assert seen
        assert not any(b"password" in environment for environment in seen)


def test_defaults_are_those_of_the_settings():
    """Limits without arguments are what `[intake]` says without a file."""
    assert Limits().max_file_bytes == IntakeSettings().max_file_bytes
    assert Limits().max_pixels == IntakeSettings().max_pixels


def test_a_full_disk_is_not_the_files_fault(photos, tmp_path, preprocessing, limits):
    """When pixels cannot be written the machine's error comes up, nobody is rejected, and nothing is left behind."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5 * preprocessing.row_bytes, hard))
    try:
        with (
            pytest.raises(OSError, match="too large") as raised,
            decode_files(list_source(photos).train, tmp_path / "c", preprocessing, limits),
        ):
            pytest.fail("decoded although the disk was full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.errno == errno.EFBIG
    assert list((tmp_path / "c").glob(f"{UNFINISHED}*")) == []
    assert decoder_pids() == []
