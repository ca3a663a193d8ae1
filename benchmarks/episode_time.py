"""Where the time of an episode on digits goes, here and in an older tree: `python -m benchmarks.episode_time --before TREE`.

Each method learns MNIST from the same SynNum model, in processes of one thread that take turns; TREE is a checkout of an older
commit (`git worktree add TREE COMMIT`). Times are processor seconds, so that other work on the machine matters little.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adaptd.bench.recipes import data_folder, load_digits
from adaptd.evaluation.evaluator import measure
from adaptd.learning.backbones import build_classifier
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan
from adaptd.learning.weights import load_classifier, save_classifier
from adaptd.project.layers import resolve_settings

METHODS = ("guarded", "grcl")
PARTS = {
    "surveys": ("adaptd.learning.survey", "survey"),
    "views of the target": ("adaptd.learning.survey", "mean_probabilities"),
    "reading and augmenting": ("adaptd.learning.batches", "Batches.__getitem__"),
}
"""What is timed by itself, and where it is."""
REST = "updates, labels and the rest"


def main() -> None:
    """Run both trees in turn and print the table; or one episode, for a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--source", type=Path, default=Path("episode-time-source.safetensors"), help="made where it is missing")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        sys.stdout.write(json.dumps(run_episode(chosen.one, chosen.source, chosen.data, chosen.epochs)))
        return
    trees = {"before": chosen.before.resolve(), "after": Path(__file__).resolve().parents[1]}
    if not chosen.source.exists():
        run_process(trees["after"], "source", chosen)
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(chosen.rounds):
        for method in METHODS:
            for name, tree in trees.items():
                found.setdefault((method, name), []).append(run_process(tree, method, chosen))
    print_table(found)


def run_process(tree: Path, method: str, chosen: argparse.Namespace) -> dict[str, float]:
    """One episode in a tree."""
    words = [sys.executable, __file__, "--before", tree, "--one", method, "--source", chosen.source.resolve()]
    words += ["--epochs", chosen.epochs, *(("--data", chosen.data.resolve()) if chosen.data else ())]
    env = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    run = subprocess.run([str(word) for word in words], env=env, cwd=tree, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, float] = json.loads(run.stdout)
    sys.stderr.write(f"{method} in {tree.name}: {answer}\n")
    return answer


def run_episode(method: str, source: Path, data: Path | None, epochs: int) -> dict[str, float]:
    """Train it; processor seconds by part, and the accuracies in the end."""
    recipe = load_digits(data_folder(data), ("synnum", "mnist"))
    given = {"training.epochs": epochs, "training.threads": 1, "model.classes": recipe.classes}
    settings = resolve_settings(recipe.settings, given)
    own, target = recipe.domains
    if method == "source":
        model = build_classifier(settings.model, 0)
        learning = Training(model, EpisodeData(own.train), Plan.for_source(settings))
        list(learning)
        source.write_bytes(save_classifier(model))
        return {}
    seconds: dict[str, float] = defaultdict(float)
    for part, (module, name) in PARTS.items():
        time_calls(module, name, part, seconds)
    model = load_classifier(source)
    start = time.process_time()
    training = Training(model, EpisodeData(own.train, (), target.train), Plan.for_adaptation(settings, method))
    steps = sum(1 for _ in training)
    training.finish()
    seconds["all"] = time.process_time() - start
    accuracies = {domain.name: measure(model, domain.test, 512).accuracy for domain in recipe.domains}
    return {**seconds, "steps": steps, **accuracies}


def time_calls(module: str, name: str, part: str, seconds: dict[str, float]) -> None:
    """Add the processor time of a function's outermost calls to a part, wherever it was imported to."""
    owner: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for each in path:
        owner = getattr(owner, each)
    plain: Callable[..., Any] = getattr(owner, last)

    def timed(*args: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return plain(*args, **named)
        finally:
            seconds[part] += time.process_time() - start

    setattr(owner, last, timed)
    for other in list(sys.modules.values()):
        if getattr(other, last, None) is plain:
            setattr(other, last, timed)


def print_table(found: dict[tuple[str, str], list[dict[str, float]]]) -> None:
    """The least of all rounds, by part."""
    sys.stdout.write("| method | part | before, s | after, s | times |\n| --- | --- | --- | --- | --- |\n")
    for method in METHODS:
        before, after = (least(found[method, tree]) for tree in ("before", "after"))
        for part in (*PARTS, REST, "all"):
            if before[part] and after[part]:
                told = f"{before[part]:.1f} | {after[part]:.1f} | {before[part] / after[part]:.2f}"
                sys.stdout.write(f"| {method} | {part} | {told} |\n")
        ends = "; ".join(f"{key} {before[key]:.1%} and {after[key]:.1%}" for key in ("synnum", "mnist"))
        sys.stdout.write(f"{method}: {before['steps']:.0f} and {after['steps']:.0f} steps; {ends}\n")


def least(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Of each figure the least, and what is left of all beside the parts."""
    found = defaultdict(float, {key: min(each[key] for each in rounds) for key in rounds[0]})
    found[REST] = found["all"] - sum(found[part] for part in PARTS)
    return found


if __name__ == "__main__":
    main()
