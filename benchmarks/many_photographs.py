"""Memory of a project with many photographs: the real commands on synthetic ones, and the most that each process took.

`python -m benchmarks.many_photographs --images 2000 10000`: for each number a few labelled images as source, that many dropped
without labels, `adaptd run --drain` with `training.depth = "classifier"`. Prints the peak of anonymous memory, which is the
process's own, and of all that it had mapped: pages of files are the kernel's to drop. Between two numbers of images, the growth
of the former in bytes an image.
"""

import argparse
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray

CLASSES = 4
SOURCE_IMAGES = 400
SIDE = 96
"""Of the photographs, in pixels."""
SCENES = 40
"""Of each class, that photographs are taken of."""
POLL_SECONDS = 0.1
QUALITY = 88

Key = tuple[str, str]
"""A process's work, and its phase."""


class Camera:
    """Takes photographs fast: cuts of large pictures, with noise.

    Each class has bars of its own direction and colours. Shifted ones are darker, and on another ground.
    """

    def __init__(self, *, shifted: bool) -> None:
        self._random = np.random.default_rng(int(shifted))
        self._noise = self._random.integers(0, 20, (4 * SIDE, 4 * SIDE, 1), dtype=np.uint8)
        self._scenes = [[self._paint(label, shifted=shifted) for _ in range(SCENES)] for label in range(CLASSES)]

    def take(self, path: Path, label: int) -> None:
        """One JPEG file of a class."""
        scene = self._scenes[label][self._random.integers(SCENES)]
        path.write_bytes(simplejpeg.encode_jpeg(self._cut(scene) + self._cut(self._noise), quality=QUALITY))

    def _cut(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        y, x = self._random.integers(picture.shape[0] - SIDE, size=2)
        return picture[y : y + SIDE, x : x + SIDE]

    def _paint(self, label: int, *, shifted: bool) -> NDArray[np.uint8]:
        random, (y, x) = self._random, np.mgrid[0 : 2 * SIDE, 0 : 2 * SIDE] / SIDE
        angle = np.pi * (label + random.uniform(-0.25, 0.25)) / CLASSES
        wave = np.sin(random.uniform(20, 30) * (np.cos(angle) * x + np.sin(angle) * y))
        colour = 0.4 * np.cos(2 * np.pi * (label / CLASSES + np.array([0, 1 / 3, 2 / 3])) + random.normal(0, 0.6))
        picture = 115 + 90 * wave[..., None] * (0.5 + colour)
        if shifted:
            picture = 0.65 * picture + 30 * random.uniform(0.5, 1) * np.stack([y, 2 - x, 2 - y], axis=2)
        pixels: NDArray[np.uint8] = picture.clip(0, 235).astype(np.uint8)
        return pixels


def make_source(folder: Path) -> None:
    """A labelled one, with a folder for each class."""
    camera = Camera(shifted=False)
    for label in range(CLASSES):
        (folder / f"class-{label}").mkdir(parents=True)
        for number in range(SOURCE_IMAGES // CLASSES):
            camera.take(folder / f"class-{label}" / f"{number:04}.jpg", label)


def make_drop(folder: Path, images: int) -> None:
    """An unlabelled one, complete."""
    folder.mkdir(parents=True)
    camera = Camera(shifted=True)
    for number in range(images):
        camera.take(folder / f"{number:06}.jpg", number % CLASSES)
    (folder / "_READY").touch()


@dataclass
class Peak:
    """The most megabytes seen: of its own, and with mapped files; and for how many seconds it was seen."""

    own: float = 0.0
    all: float = 0.0
    seconds: float = 0.0


@dataclass
class Watcher:
    """Looks at the memory of a command and of all that it starts, many times a second."""

    database: Path
    peaks: dict[Key, Peak] = field(default_factory=dict)

    @contextmanager
    def watching(self, root: int, name: str) -> Iterator[None]:
        """Until the command is over."""
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(root, name, over))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watch(self, root: int, name: str, over: threading.Event) -> None:
        before = time.monotonic()
        while not over.wait(POLL_SECONDS):
            phase, now = self._read_phase(), time.monotonic()
            for pid in list_descendants(root):
                role = name if pid == root else tell_role(pid)
                inner = phase if role == "episode" or name == "source import" else ""
                self._note((role, inner), pid, now - before)
            before = now

    def _note(self, key: Key, pid: int, seconds: float) -> None:
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        except OSError:
            return
        found = dict(re.findall(r"^(RssAnon|VmRSS):\s+(\d+) kB", status, re.MULTILINE))
        if found:
            peak = self.peaks.setdefault(key, Peak())
            peak.own, peak.all = max(peak.own, int(found["RssAnon"]) / 1e3), max(peak.all, int(found["VmRSS"]) / 1e3)
            peak.seconds += seconds

    def _read_phase(self) -> str:
        """Of the newest episode, as the store tells it."""
        try:
            with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=0)) as connection:
                row = connection.execute("select phase from episodes order by id desc limit 1").fetchone()
        except sqlite3.Error:
            return ""
        return row[0] if row else ""


def list_descendants(root: int) -> list[int]:
    """A process and all below it."""
    found = [root]
    for pid in found:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text(encoding="ascii").split())
        except OSError:
            continue
    return found


def tell_role(pid: int) -> str:
    """What a process started by adaptd does."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return "other"
    if "adaptd.daemon.worker" in words:
        return words[words.index("adaptd.daemon.worker") + 2]
    return "decoder" if "adaptd.library.decoder" in words else "other"


def run(watcher: Watcher, root: Path, name: str, *words: object) -> float:
    """One command of adaptd to its end; its seconds."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "adaptd.cli.main", *map(str, words)]
    where = root if root.is_dir() else root.parent
    process = subprocess.Popen(command, cwd=where, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, stdout=subprocess.DEVNULL)
    with watcher.watching(process.pid, name):
        code = process.wait()
    if code:
        raise SystemExit(f"`adaptd {' '.join(map(str, words))}` ended with {code}")
    return time.perf_counter() - start


@dataclass
class Walk:
    """One project: how much memory each process took, how long it was, and what came of it."""

    images: int
    peaks: dict[Key, Peak]
    seconds: dict[str, float]
    states: list[str]


def walk(images: int, settings: dict[str, object], work: Path) -> Walk:
    """From nothing to a version that has adapted."""
    root, seconds = work / "shop", dict[str, float]()
    make_source(work / "source")
    os.environ |= {f"ADAPTD_{name}": str(value) for name, value in settings.items()}
    watcher = Watcher(root / "state" / "adaptd.db")
    seconds["init"] = run(watcher, root, "init", "init", root, "--backbone", "efficientnet_lite0")
    seconds["source import"] = run(watcher, root, "source import", "source", "import", work / "source")
    make_drop(root / "inbox" / "market", images)
    seconds["run --drain"] = run(watcher, root, "run --drain", "run", "--drain")
    listed = subprocess.run(
        [sys.executable, "-m", "adaptd.cli.main", "versions", "--json"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.PIPE,
        check=True,
    )
    states = [version["state"] for version in json.loads(listed.stdout)["versions"]]
    return Walk(images, watcher.peaks, seconds, states)


def tell(walks: list[Walk]) -> Iterator[str]:
    """A table with a row for each process and phase, and a column for each number of images."""
    yield "| process | phase | " + " | ".join(f"{each.images:,}: own MB | all MB | s" for each in walks) + " | bytes an image |"
    yield "| --- | --- |" + " --- | --- | --- |" * len(walks) + " --- |"
    for key in dict.fromkeys(key for each in walks for key in each.peaks):
        found = [each.peaks.get(key, Peak()) for each in walks]
        columns = (f"{peak.own:.0f} | {peak.all:.0f} | {peak.seconds:.0f}" for peak in found)
        growth = ""
        if len(walks) > 1 and all(key in each.peaks for each in (walks[0], walks[-1])):
            growth = f"{1e6 * (found[-1].own - found[0].own) / (walks[-1].images - walks[0].images):.0f}"
        yield f"| {' | '.join(key)} | {' | '.join(columns)} | {growth} |"
    for each in walks:
        took = ", ".join(f"`{name}` {seconds:.0f} s" for name, seconds in each.seconds.items())
        yield f"\n{each.images:,} images: {took}; versions: {', '.join(each.states)}"


def main() -> None:
    """A project for each number of images, then the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--views", type=int, default=3)
    chosen = parser.parse_args()
    settings = {"MODEL__IMAGE_SIZE": chosen.pixels, "TRAINING__EPOCHS": chosen.epochs, "TRAINING__VIEWS": chosen.views}
    depth = {"TRAINING__DEPTH": "classifier", "SOURCE__DEPTH": "classifier"}
    walks = []
    for images in chosen.images:
        with tempfile.TemporaryDirectory(prefix="adaptd-many-") as temporary:
            walks.append(walk(images, settings | depth, Path(temporary)))
        sys.stderr.write("\n".join(tell(walks[-1:])) + "\n")
    sys.stdout.write("\n".join(tell(walks)) + "\n")


if __name__ == "__main__":
    main()
