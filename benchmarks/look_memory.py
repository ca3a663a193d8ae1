"""Memory of one look at a whole domain, as `guarded` takes it, on made-up activations: no image is decoded, no backbone run.

`python -m benchmarks.look_memory --images 2000 10000`: for each number a process maps that many activations, surveys them with a
classifier alone and labels them. Prints the most memory of its own that it took meanwhile, beyond what it had before.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.cut import cut
from adaptd.learning.methods import propagation
from adaptd.learning.methods.labelling import label
from adaptd.learning.seeding import generator
from adaptd.learning.settings import ModelSettings
from adaptd.learning.survey import survey
from adaptd.learning.views import ViewedSet

BLOCK = 1000


def own_megabytes() -> float:
    """Memory of this process that is no file's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.findall(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)[0]) / 1e3


def make_images(count: int, width: int, classes: int, folder: Path) -> ViewedSet:
    """Activations around a centre for each class, mapped."""
    random, path = np.random.default_rng(0), folder / "target-0.f16"
    centres = random.random((classes, width), dtype=np.float32)
    with path.open("wb") as file:
        for start in range(0, count, BLOCK):
            names = np.arange(start, min(start + BLOCK, count)) % classes
            rows = centres[names] + random.random((len(names), width), dtype=np.float32)
            file.write(rows.astype(np.float16).data)
    view = np.memmap(path, dtype=np.float16, mode="r", shape=(count, width))
    nothing = np.broadcast_to(np.uint8(0), (count, 3, 1, 1))
    return ViewedSet(np.arange(count), nothing, None, (view,))


def look(model: Classifier, images: ViewedSet, classes: int) -> None:
    """What an episode does before an epoch, but for the changed views."""
    found = survey(model, images)
    assert found.features is not None
    centroids = torch.nn.functional.normalize(found.features[:classes], dim=1)
    label(found.logits.double().softmax(dim=1), found.features, centroids, generator(0, "neighbours"))


def measure(count: int, classes: int) -> tuple[float, float]:
    """The growth of a look in megabytes, and its seconds."""
    settings = ModelSettings(backbone="efficientnet_lite0", image_size=64, classes=tuple(map(str, range(classes))))
    model, peak, over = cut(build_classifier(settings), "classifier").upper.eval(), [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            peak[0] = max(peak[0], own_megabytes())

    with tempfile.TemporaryDirectory() as folder:
        look(model, make_images(BLOCK, model.classifier.in_features, classes, Path(folder)), classes)
        images = make_images(count, model.classifier.in_features, classes, Path(folder))
        before, start, thread = own_megabytes(), time.perf_counter(), threading.Thread(target=watch)
        thread.start()
        look(model, images, classes)
        over.set()
        thread.join()
    return peak[0] - before, time.perf_counter() - start


def main() -> None:
    """A table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--landmarks", type=int, default=propagation.LANDMARKS, help="fewer: what grows beyond them, sooner")
    parser.add_argument("--one", action="store_true", help="measure in this process, and print the figures alone")
    chosen = parser.parse_args()
    propagation.LANDMARKS = chosen.landmarks
    if chosen.one:
        sys.stdout.write("{} {}".format(*measure(chosen.images[0], chosen.classes)))
        return
    sys.stdout.write("| images | own MB | s |\n| --- | --- | --- |\n")
    for count in chosen.images:
        words = ["--one", "--images", str(count), "--classes", str(chosen.classes), "--landmarks", str(chosen.landmarks)]
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.look_memory", *words], stdout=subprocess.PIPE, text=True, check=True
        )
        grown, seconds = map(float, run.stdout.split())
        sys.stdout.write(f"| {count:,} | {grown:.0f} | {seconds:.0f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
