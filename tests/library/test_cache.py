"""Caches come back as they were written, are whole or not there, and say what is wrong with them."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from adaptd.errors import CacheUnusable
from adaptd.library.cache import UNFINISHED, damaged_rows, open_cache, remove_unfinished, take, write_cache
from adaptd.library.imageset import ImageSet
from adaptd.library.preprocessing import Preprocessing

EIGHT = Preprocessing(8)


def some_images(n=5, labels=None):
    """Noise with ids from 10 on."""
    pixels = np.random.default_rng(0).integers(0, 256, (n, 3, 8, 8), dtype=np.uint8)
    return ImageSet(np.arange(10, 10 + n), pixels, labels)


def hashes(images):
    """A made-up hash for each id."""
    return [f"{identity:064x}" for identity in images.ids]


@pytest.fixture
def cache(tmp_path):
    """Five images, written."""
    images = some_images()
    write_cache(tmp_path / "cache", images, hashes(images), EIGHT)
    return tmp_path / "cache"


def test_memory_outlives_its_domain(cache, tmp_path):
    """Images taken from a domain's cache and written on their own are there when the domain's cache is gone."""
    domain = open_cache(cache)
    kept = take(domain.images, [13, 10])
    memory = ImageSet(kept.ids, kept.pixels, np.array([1, 0]))
    write_cache(tmp_path / "memory", memory, hashes(memory), EIGHT)
    expected = some_images().pixels[[3, 0]]
    del domain
    for file in cache.iterdir():
        file.unlink()
    opened = open_cache(tmp_path / "memory", EIGHT)
    assert opened.images.ids.tolist() == [13, 10]
    assert opened.images.labels.tolist() == [1, 0]
    assert (opened.images.pixels == expected).all()
    assert opened.index.sha256 == (f"{13:064x}", f"{10:064x}")


def test_take_copies_and_names_what_is_missing():
    """Taken images do not hang on the set they come from; an unknown id is an error."""
    images = some_images(labels=np.array([4, 3, 2, 1, 0]))
    taken = take(images, [14, 11])
    assert taken.labels.tolist() == [0, 3]
    assert not np.shares_memory(taken.pixels, images.pixels)
    with pytest.raises(KeyError, match="99"):
        take(images, [10, 99])


def test_ids_are_unique(tmp_path):
    """Two rows with one id cannot be written."""
    images = ImageSet(np.array([1, 1]), some_images(2).pixels)
    with pytest.raises(ValueError, match="no id twice"):
        write_cache(tmp_path / "cache", images, hashes(images), EIGHT)
    assert list(tmp_path.iterdir()) == []


def test_another_preprocessing_is_another_cache(cache):
    """A cache decoded for another working size is refused with both named."""
    with pytest.raises(CacheUnusable, match=r"8.*16"):
        open_cache(cache, Preprocessing(16))


def test_damage_is_found(cache):
    """Missing or cut files and changed bytes are told apart and named."""
    pixels, index = cache / "pixels.u8", cache / "index.json"
    content, stored = pixels.read_bytes(), json.loads(index.read_text())

    pixels.write_bytes(content[:400] + bytes([content[400] ^ 1]) + content[401:])
    assert damaged_rows(open_cache(cache)) == (2,)

    pixels.write_bytes(content[:-1])
    with pytest.raises(CacheUnusable, match="959 bytes instead of 960"):
        open_cache(cache)
    pixels.unlink()
    with pytest.raises(CacheUnusable, match="missing"):
        open_cache(cache)

    pixels.write_bytes(content)
    changes = (
        {"ids": [1]},
        {"shape": [5, 3, 9, 9]},
        {"preprocessing": {}},
        {"schema": "adaptd.cache/9"},
        {"labels": [1]},
    )
    for change in changes:
        index.write_text(json.dumps(stored | change))
        with pytest.raises(CacheUnusable, match="decode"):
            open_cache(cache)
    for broken in ("{", "[]", "7", '{"schema": "adaptd.cache/1"}'):
        index.write_text(broken)
        with pytest.raises(CacheUnusable, match="damaged"):
            open_cache(cache)
    index.unlink()
    with pytest.raises(CacheUnusable, match="no cache"):
        open_cache(cache)


def test_kill_leaves_a_whole_cache_or_none(tmp_path):
    """A process killed at any moment of writing leaves complete caches and sweepable rests, nothing in between."""
    program = f"""
import sys, itertools
from pathlib import Path
sys.path[:0] = {sys.path!r}
import numpy as np
from adaptd.library.cache import write_cache
from adaptd.library.imageset import ImageSet
from adaptd.library.preprocessing import Preprocessing
images = ImageSet(np.arange(300), np.full((300, 3, 8, 8), 7, dtype=np.uint8))
print("go", flush=True)
for number in itertools.count():
    write_cache(Path({str(tmp_path)!r}) / str(number), images, ["0" * 64] * 300, Preprocessing(8))
"""
    rests, deadline = 0, time.monotonic() + 120
    while rests < 3:
        assert time.monotonic() < deadline, "no kill ever hit a cache that was being written"
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        process.stdout.readline()
        while not ((tmp_path / "0").is_dir() and any(tmp_path.glob(f"{UNFINISHED}*"))):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        rests += len(remove_unfinished(tmp_path))
        caches = [path for path in tmp_path.iterdir() if path.name.isdecimal()]
        assert len(caches) == len(list(tmp_path.iterdir()))
        assert caches
        for path in caches:
            opened = open_cache(path)
            assert len(opened.images) == 300
            assert damaged_rows(opened) == ()
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
