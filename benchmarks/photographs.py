"""Photographs as a new user has them: from `adaptd init` to a published version, with the commands of the README.

`python -m benchmarks.photographs`: Office-Caltech's Amazon is the labelled source, Caltech is dropped without labels. Prints the
seconds of each phase, and the accuracy on Caltech before and after, measured with labels that adaptd never sees. `--times 3`
makes three times as many images, by mirrored and cropped copies; `--images 5` takes few of each class, to try it out. Settings
are the defaults, but for those in the environment (ADAPTD_SECTION__KEY).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from adaptd.bench.recipes import data_folder, load_folders
from adaptd.evaluation.evaluator import measure
from adaptd.learning.weights import load_classifier
from adaptd.library.imageset import ImageSet

CROP = 0.06


def gather(folder: Path, target: Path, images: int, times: int) -> int:
    """Copy the first images of each class, as many times, into class folders; how many there are."""
    count = 0
    for name in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        (target / name).mkdir(parents=True)
        for path in sorted((folder / name).iterdir())[: images or None]:
            shutil.copy(path, target / name / path.name)
            for number in range(1, times):
                vary(path, number).save(target / name / f"{path.stem}-{number}.jpg", quality=92)
            count += times
    return count


def vary(path: Path, number: int) -> Image.Image:
    """Another picture of the same: mirrored if the number is odd, and cropped the more the higher it is."""
    with Image.open(path) as picture:
        whole = picture.convert("RGB")
    left, top = (round(CROP * number * side) for side in whole.size)
    cropped = whole.crop((left, top, whole.width, whole.height))
    return ImageOps.mirror(cropped) if number % 2 else cropped


def drop(labelled: Path, target: Path) -> None:
    """Copy images into one folder under numbers, so that nothing tells their class."""
    target.mkdir(parents=True)
    files = sorted(path for path in labelled.rglob("*") if path.is_file())
    for number, row in enumerate(np.random.default_rng(0).permutation(len(files))):
        shutil.copy(files[row], target / f"{number:05}{files[row].suffix}")


class Project:
    """A project and its commands, each timed."""

    def __init__(self, root: Path) -> None:
        self.root, self.seconds = root, dict[str, float]()

    def run(self, phase: str, *words: object) -> str:
        """One command to its end; its output."""
        start = time.perf_counter()
        command = [sys.executable, "-m", "adaptd.cli.main", *map(str, words)]
        environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
        where = self.root if self.root.is_dir() else self.root.parent
        run = subprocess.run(command, cwd=where, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode:
            raise SystemExit(f"`adaptd {' '.join(map(str, words))}` ended with {run.returncode}")
        self.seconds[phase] = time.perf_counter() - start
        sys.stderr.write(f"{phase}: {self.seconds[phase]:.0f} s\n")
        return run.stdout

    def measure(self, images: ImageSet) -> Iterator[float]:
        """The accuracy of the model after each episode."""
        for path in sorted((self.root / "state" / "weights").glob("episode-*.safetensors")):
            yield measure(load_classifier(path), images, 64).accuracy


def walk(project: Project, source: Path, domain: Path, backbone: str) -> dict[str, Any]:
    """The README's steps; what they say in the end."""
    project.run("init", "init", project.root, "--backbone", backbone)
    project.run("source import", "source", "import", source)
    drop(domain, project.root / "inbox" / domain.name)
    project.run("drop to version", "run", "--drain")
    found: dict[str, Any] = json.loads(project.run("versions", "versions", "--json"))
    return found


def load_labelled(folders: list[Path], work: Path, size: int) -> ImageSet:
    """All images of the second folder with labels, for the reader alone."""
    domain = load_folders(folders, work, size)[0][1]
    parts = (domain.train, domain.test)
    ids = np.arange(sum(map(len, parts)), dtype=np.int64)
    labels = np.concatenate([part.labels for part in parts if part.labels is not None])
    return ImageSet(ids, np.concatenate([part.pixels for part in parts]), labels)


def main() -> None:
    """One walk, with a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--source", default="amazon")
    parser.add_argument("--domain", default="caltech")
    parser.add_argument("--backbone", default="efficientnet_lite0")
    parser.add_argument("--images", type=int, default=0, help="of each class; 0: all")
    parser.add_argument("--times", type=int, default=1, help="as many images")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    chosen = parser.parse_args()
    office = data_folder(chosen.data) / "office_caltech10"
    with tempfile.TemporaryDirectory(prefix="adaptd-photographs-") as temporary:
        work = Path(temporary)
        folders = [work / chosen.source, work / chosen.domain]
        counts = [gather(office / folder.name, folder, chosen.images, chosen.times) for folder in folders]
        project = Project(work / "shop")
        versions = walk(project, folders[0], folders[1], chosen.backbone)["versions"]
        total = sum(project.seconds.values())
        states = [version["state"] for version in versions]
        size = load_classifier(next((project.root / "state" / "weights").glob("*.safetensors"))).settings.image_size
        accuracies = list(project.measure(load_labelled(folders, work / "decoded", size)))
    result = {"images": counts, "seconds": project.seconds | {"all": total}, "versions": states, "accuracies": accuracies}
    if chosen.out:
        chosen.out.write_text(json.dumps(result, indent=1), encoding="utf-8")
    sys.stdout.write(f"{counts[0]} labelled and {counts[1]} dropped images, {chosen.backbone} at {size} pixels\n\n")
    sys.stdout.write("| phase | seconds |\n| --- | --- |\n")
    for phase, seconds in {**project.seconds, "all": total}.items():
        sys.stdout.write(f"| {phase} | {seconds:.0f} |\n")
    sys.stdout.write(
        f"\nversions: {', '.join(states)}; accuracy on {chosen.domain}, measured with labels that adaptd did not see: "
    )
    sys.stdout.write(f"{' → '.join(f'{accuracy:.1%}' for accuracy in accuracies)}\n")


if __name__ == "__main__":
    main()
