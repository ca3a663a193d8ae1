"""Something happens in the inbox and the watcher wakes; where the kernel tells nothing, it says so and looks often."""

import os
import resource
import subprocess
import sys
import threading
import time

import pytest

from adaptd.intake.watching import Watcher

LONG = 60
"""Never waited for in full: a wake-up ends it."""


@pytest.fixture
def watcher(inbox):
    """A watcher of the inbox."""
    with Watcher(inbox) as watcher:
        yield watcher


def drain(watcher):
    """Wait out what is still under way."""
    while watcher.wait(0.5):
        pass


@pytest.mark.parametrize("deep", ["new", "drop/new", "drop/sub/new"])
@pytest.mark.parametrize("kind", ["folder", "file", "renamed", "hard link"])
def test_any_new_name_wakes(watcher, inbox, plant, deep, kind):
    """At any depth, in folders that came after the watcher too: made, moved in, linked."""
    plant(inbox.parent, "outside")
    plant(inbox, "drop/sub/old")
    drain(watcher)
    make = {
        "folder": lambda path: path.mkdir(),
        "file": lambda path: path.touch(),
        "renamed": lambda path: (inbox.parent / "outside").rename(path),
        "hard link": lambda path: path.hardlink_to(inbox.parent / "outside"),
    }
    make[kind](inbox / deep)
    assert watcher.trouble is None
    assert watcher.wait(LONG)


def test_nothing_happens_and_nothing_wakes(watcher):
    """`wait` ends with its time and says that nothing was there."""
    assert not watcher.wait(0.05)
    assert not watcher.wait(-1)


def test_many_events_are_few_wake_ups(watcher, inbox):
    """What comes together is gathered."""
    for number in range(500):
        (inbox / f"{number}.jpg").touch()
    wakes = 0
    while watcher.wait(0.5):
        wakes += 1
    assert 1 <= wakes <= 50


def test_another_thread_wakes(watcher):
    """As a request over HTTP does."""
    threading.Timer(0.05, watcher.wake).start()
    assert watcher.wait(LONG)


def test_a_signal_handler_wakes(inbox):
    """A handler that interrupts `wait` at any point may call `wake`: thousands of signals, no deadlock."""
    program = (
        "import os, signal, sys, threading\n"
        "from pathlib import Path\n"
        "from adaptd.intake import watching\n"
        "watching.GATHER_SECONDS = 0\n"
        "watcher = watching.Watcher(Path(sys.argv[1]))\n"
        "signal.signal(signal.SIGUSR1, lambda *_: watcher.wake())\n"
        "def send():\n    for _ in range(3000):\n        os.kill(os.getpid(), signal.SIGUSR1)\n"
        "thread = threading.Thread(target=send)\n"
        "thread.start()\n"
        "while thread.is_alive():\n    watcher.wait(0.01)\n"
        "watcher.stop()\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, inbox], check=True, timeout=60, env=os.environ | {"PYTHONPATH": ":".join(sys.path)}
    )


def test_an_inbox_that_comes_later_is_watched(tmp_path):
    """Until it is there `trouble` says so and `wait` returns soon; then events wake again, without a request."""
    inbox = tmp_path / "inbox"
    with Watcher(inbox, poll_seconds=0.01) as watcher:
        assert "is not there" in watcher.trouble
        assert not watcher.wait(LONG)
        inbox.mkdir()
        drain(watcher)
        assert watcher.trouble is None
        (inbox / "drop").mkdir()
        assert watcher.wait(LONG)


def test_an_inbox_that_was_removed_and_made_again_is_watched(watcher, inbox):
    """The watch of the old folder died with it; the next wait starts another."""
    inbox.rmdir()
    inbox.mkdir()
    names = iter(range(1000))
    # The old watch may end a moment later than the old folder: what happens in between is for the scan to find.
    while not watcher.wait(0.2):
        (inbox / f"{next(names)}").mkdir()


def test_the_limit_on_watches_means_polling(inbox):
    """With all inotify instances used up, it says which limit to raise, and polls; after `rearm` it watches again."""
    limit = int(open("/proc/sys/fs/inotify/max_user_instances").read())
    if limit > 5000:
        pytest.skip("max_user_instances is too high to be used up")
    import ctypes

    libc = ctypes.CDLL(None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, limit + 500)), hard))
    taken = []
    try:
        while (descriptor := libc.inotify_init()) >= 0:
            taken.append(descriptor)
        with Watcher(inbox, poll_seconds=0.01) as watcher:
            assert "fs.inotify.max_user_instances" in watcher.trouble
            assert not watcher.wait(LONG)
            while taken:
                os.close(taken.pop())
            watcher.rearm()
            assert watcher.trouble is None
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_stopping_is_quick_and_leaves_nothing(inbox):
    """No thread and no descriptor stays; stopping twice is fine."""

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    before, threads = descriptors(), threading.active_count()
    for _ in range(5):
        watcher = Watcher(inbox)
        (inbox / f"{time.monotonic_ns()}").mkdir()
        watcher.stop()
        watcher.stop()
    assert (descriptors(), threading.active_count()) == (before, threads)
