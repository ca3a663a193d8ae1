"""What a few labels a domain add to ACC on Digits with labels.train. `python -m benchmarks.label_gain --help`.

Each cell is written when it is finished: the same command goes on where it stopped. What was trained without labels is shared
with `benchmarks.estimates` of the same options. Test labels choose nothing.
"""

import argparse
import json
import statistics
from typing import Any

import numpy as np
import torch

from adaptd.bench.cell import Teach, run_cell
from adaptd.bench.recipes import BenchDomain, data_folder, load_digits
from adaptd.evaluation.evaluator import predict
from adaptd.files import replace_file
from adaptd.labels.doubt import find_doubt
from adaptd.learning.backbones import Classifier
from adaptd.learning.seeding import generator
from adaptd.learning.weights import load_classifier
from adaptd.library.cache import take
from adaptd.library.imageset import ImageSet
from benchmarks.estimates.versions import add_options, find_folder, make_ground, make_settings, show_steps, train_versions

CHOICES = ("none", "random", "doubt")


def make_teacher(choice: str, labels: int, seed: int, source: Classifier) -> Teach:
    """Chooses images of a domain as `adaptd labels template` does for teach.csv, or at random."""

    def teach(domain: BenchDomain, model: Classifier) -> ImageSet:
        images = domain.train.unlabelled()
        if choice == "random":
            order = np.random.default_rng(generator(seed, "labels", domain.name).initial_seed()).permutation(len(images))
        else:
            order = np.argsort(-find_doubt(predict(source, images, 512), predict(model, images, 512)), kind="stable")
        return take(domain.train, images.ids[order[:labels]].tolist())

    return teach


def main() -> None:
    """Run what is missing, then print the table of everything there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="guarded")
    parser.add_argument("--labels", type=int, default=50, help="of each domain")
    parser.add_argument("--only", default=",".join(CHOICES))
    add_options(parser)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    ground = make_ground(load_digits(data_folder(chosen.data)), chosen.source_images, chosen.images)
    out = find_folder("digits", chosen)
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in map(int, chosen.seeds.split(",")):
        settings = make_settings(ground.recipe, chosen, seed)
        for choice in chosen.only.split(","):
            show = show_steps(f"{choice} {seed}")
            # Without labels first: that trains the source model, too.
            versions = train_versions(ground, settings, chosen.method, out, show)
            file = versions[0].with_name("cell.json")
            if choice != "none":
                file = out / f"{choice}-{chosen.labels}-{chosen.method}-{seed}.json"
            if choice != "none" and not file.exists():
                teach = make_teacher(choice, chosen.labels, seed, load_classifier(versions[0]))
                cell = run_cell(ground.recipe, settings, chosen.method, versions[0], show, teach=teach)
                replace_file(file, json.dumps(cell).encode())
            found.setdefault(choice, []).append(json.loads(file.read_text(encoding="utf-8")))
    tell(found)


def tell(found: dict[str, list[dict[str, Any]]]) -> None:
    """ACC over all domains, what labels add to it seed by seed, and each domain at the end, in percent."""
    for choice, cells in found.items():
        accs = [100 * cell["acc"] for cell in cells]
        spread = f" ± {statistics.stdev(accs):.1f}" if len(accs) > 1 else ""
        last = [100 * statistics.mean(cell["R"][-1][j] for cell in cells) for j in range(len(cells[0]["domains"]))]
        each = "  ".join(f"{name} {value:.1f}" for name, value in zip(cells[0]["domains"], last, strict=True))
        print(f"{choice:8} seeds {len(cells)}  ACC {statistics.mean(accs):.1f}{spread}  {each}")
        if choice != "none" and "none" in found:
            gains = [100 * (cell["acc"] - bare["acc"]) for cell, bare in zip(cells, found["none"], strict=True)]
            print(f"{'':8} gain, seed by seed: {', '.join(f'{gain:+.1f}' for gain in gains)}")


if __name__ == "__main__":
    main()
