"""A GRCL step beside a GEM step of Avalanche 0.6, with 2 and with 10 earlier domains: same network, optimizer and threads.

    python -m benchmarks.peers_training [--avalanche-python PATH] [--seconds 60] [--threads 0]

The two take turns in one process (A B A B …), so a noisy machine disturbs them alike; the speed of a matrix product in
the same minute stands beside them. Prints a table and writes benchmarks/out/peers_training.json.

Both learn from the same number of new images a step. GEM passes its whole memory of every earlier domain through the network
each time, here 64 images of each, as many as one part of our batch has, and 256; GRCL takes 64 images of
the source and 64 of all memories together. Where it matters the peer has the lighter work: images are float tensors in memory,
its loss is one cross-entropy, nothing is augmented, nothing is logged; ours is a step of `adaptd adapt`, from reading to new
weights. Avalanche is no dependency of adaptd; where it is not installed the command says how to.
"""

import argparse
import copy
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from adaptd.learning.backbones import Classifier
from adaptd.learning.reports import StepReport
from adaptd.learning.torchvision_compat import import_torchvision
from benchmarks.step_cost import BATCH, CASES, episode, timed

EARLIER = (2, 10)
KEPT = (64, 256)
GOALS = {2: 1.3, 10: 5.0}
"""How many times as fast, by the number of earlier domains."""
NEW = BATCH // 2
INSTALL = """Avalanche is not installed here. In an environment of its own:
    python -m venv ~/.cache/adaptd-bench/avalanche
    ~/.cache/adaptd-bench/avalanche/bin/pip install -c constraints.txt . 'avalanche-lib==0.6.*' quadprog
    python -m benchmarks.peers_training --avalanche-python ~/.cache/adaptd-bench/avalanche/bin/python"""


class Turns:
    """Takes our turn after each of the peer's, and writes down how long everything took."""

    def __init__(self, steps: Iterator[StepReport], seconds: float, least: int = 5) -> None:
        self.times: dict[str, list[float]] = {"avalanche": [], "grcl": [], "gemm": []}
        self._steps, self._least, self._square = steps, least, torch.rand(1024, 1024)
        self._end, self._begun = time.perf_counter() + seconds, 0.0

    def take(self) -> bool:
        """After a step of the peer's; whether there is time for another one."""
        if self._begun:  # the first is for warming up
            self.times["avalanche"].append(time.perf_counter() - self._begun)
            self.times["grcl"].append(next(self._steps).seconds)
            self.times["gemm"].append(timed(lambda: self._square @ self._square))
        self._begun = time.perf_counter()
        return self._begun < self._end or len(self.times["grcl"]) < self._least


def make_peer(model: Classifier, earlier: int, kept: int, size: int, turns: Turns) -> Any:
    """A GEM strategy that remembers earlier domains, and gives us our turn after every step."""
    from avalanche.training.plugins import EvaluationPlugin, GEMPlugin, SupervisedPlugin  # noqa: PLC0415
    from avalanche.training.supervised import Naive  # noqa: PLC0415

    class TakeTurns(SupervisedPlugin):  # type: ignore[misc]  # there is no type where it is not installed
        def after_training_iteration(self, strategy: Any, **_: Any) -> None:
            """The step is done, its weights are new."""
            if not turns.take():
                strategy.stop_training()

    gem, model.projector = GEMPlugin(kept, 0.5), torch.nn.Identity()  # type: ignore[assignment]
    for number in range(earlier):
        gem.update_memory(make_domain(kept, size, number), number, NEW)
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-4),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=NEW,
        train_epochs=10**6,
        evaluator=EvaluationPlugin(),
        plugins=[gem, TakeTurns()],
    )
    strategy.clock.train_exp_counter = earlier
    return strategy


def make_domain(count: int, size: int, seed: int) -> Any:
    """Random images with labels, as Avalanche keeps them in memory."""
    from avalanche.benchmarks.utils.classification_dataset import (  # noqa: PLC0415
        _make_taskaware_tensor_classification_dataset,
    )

    chance = torch.Generator().manual_seed(seed)
    images = torch.rand(count, 3, size, size, generator=chance)
    labels = torch.randint(0, 10, (count,), generator=chance)
    return _make_taskaware_tensor_classification_dataset(images, labels, task_labels=0)


def measure(backbone: str, size: int, earlier: int, kept: int, options: argparse.Namespace) -> dict[str, Any]:
    """One case."""
    from avalanche.benchmarks import benchmark_from_datasets  # noqa: PLC0415

    training = episode("grcl", backbone, size, options.threads, memories=earlier - 1)
    steps = iter(training)
    next(steps)
    turns = Turns(steps, options.seconds)
    peer = make_peer(copy.deepcopy(training.model).train(), earlier, kept, size, turns)
    peer.train(benchmark_from_datasets(train=[make_domain(4 * NEW, size, 99)]).train_stream)
    return summarise(turns.times) | {"backbone": backbone, "size": size, "earlier": earlier, "kept": kept}


def summarise(times: dict[str, list[float]]) -> dict[str, Any]:
    """Medians, quartiles, and the ratio within a turn."""
    ratios = [theirs / ours for theirs, ours in zip(times["avalanche"], times["grcl"], strict=True)]
    return {
        "turns": len(ratios),
        "median_ms": {name: 1e3 * statistics.median(values) for name, values in times.items()},
        "p25_ms": {name: 1e3 * statistics.quantiles(values, n=4)[0] for name, values in times.items()},
        "faster": statistics.median(ratios),
        "faster_p25": statistics.quantiles(ratios, n=4)[0],
        "gemm_gflops": 2 * 1024**3 / statistics.median(times["gemm"]) / 1e9,
    }


def show(found: dict[str, Any]) -> None:
    """A line of the table."""
    goal = f"≥ {GOALS[found['earlier']]}" if found["kept"] == max(KEPT) else "–"
    figures = [f"{found[key][name]:.1f}" for name in ("grcl", "avalanche") for key in ("median_ms", "p25_ms")]
    words = [found["backbone"], found["earlier"], found["kept"], *figures, f"{found['faster']:.2f}", f"{found['faster_p25']:.2f}"]
    print("| " + " | ".join(map(str, [*words, goal, found["turns"], f"{found['gemm_gflops']:.0f}"])) + " |", flush=True)


def main() -> None:
    """Measure every case, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="time for each case")
    parser.add_argument("--threads", type=int, default=0, help="0: all; 1 for honest ratios while others use the machine")
    parser.add_argument("--backbones", default=",".join(name for name, _ in CASES))
    parser.add_argument("--avalanche-python", type=Path, help="the interpreter of an environment that has adaptd and Avalanche")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/peers_training.json"))
    options = parser.parse_args()
    if options.avalanche_python and options.avalanche_python.absolute() != Path(sys.executable).absolute():
        words = [str(options.avalanche_python), "-m", "benchmarks.peers_training", *sys.argv[1:]]
        os.execv(words[0], words)
    if importlib.util.find_spec("avalanche") is None:
        sys.exit(INSTALL)
    import_torchvision()  # before Avalanche does
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    print(f"torch {torch.__version__}, commit {commit}; milliseconds a step, each with its p25")
    heads = ["backbone", "earlier", "kept", "grcl", "p25", "GEM", "p25", "faster", "p25", "goal", "turns", "GFLOP/s"]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    results = []
    for backbone, size in CASES:
        if backbone in options.backbones.split(","):
            for earlier, kept in ((one, other) for one in EARLIER for other in KEPT):
                results.append(measure(backbone, size, earlier, kept, options))
                show(results[-1])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"torch": torch.__version__, "threads": torch.get_num_threads(), "commit": commit}
    options.out.write_text(json.dumps(about | {"cases": results}, indent=2))


if __name__ == "__main__":
    main()
