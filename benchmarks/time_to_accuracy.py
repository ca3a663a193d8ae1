"""How long until 95 % of what is gained in the end is gained: guarded by default, against GRCL with the paper's 240 epochs.

`python -m benchmarks.time_to_accuracy --source bench-digits/source-0-….safetensors`: one episode each from the source model,
measured on the target's test set after every epoch; the clock stops for that. `--minutes` ends a long schedule early; how long
the whole of it takes is then told by its pace.
"""

import argparse
import sys
import time
from pathlib import Path

from adaptd.bench.recipes import BenchDomain, Recipe, data_folder, load_digits
from adaptd.evaluation.evaluator import measure
from adaptd.learning.batches import EpisodeData
from adaptd.learning.loop import Training
from adaptd.learning.plan import Plan
from adaptd.learning.weights import load_classifier
from adaptd.project.layers import resolve_settings

SCHEDULES = {"guarded": 20, "grcl": 240}


def run(recipe: Recipe, target: BenchDomain, method: str, source: Path, minutes: float) -> None:
    """One episode, with a line for it."""
    settings = resolve_settings(recipe.settings, {"training.epochs": SCHEDULES[method]})
    model = load_classifier(source)
    data = EpisodeData(recipe.domains[0].train, (), target.train)
    training = Training(model, data, Plan.for_adaptation(settings, method))
    before = measure(model, target.test, 512).accuracy
    spent, curve = 0.0, [(0.0, before)]
    start = time.perf_counter()
    for report in training:
        if report.step % training.epoch_steps and report.step < report.steps:
            continue
        spent += time.perf_counter() - start
        curve.append((spent, measure(model, target.test, 512).accuracy))
        sys.stderr.write(f"{method} {target.name}: epoch {len(curve) - 1}, {spent:.0f} s, {curve[-1][1]:.1%}\n")
        if spent > 60 * minutes:
            break
        start = time.perf_counter()
    last = curve[-1][1]
    enough = next(seconds for seconds, accuracy in curve if accuracy >= before + 0.95 * (last - before))
    epochs = len(curve) - 1
    whole = spent if training.step == training.steps else spent / epochs * SCHEDULES[method]
    sys.stdout.write(f"| {target.name} | {method} | {epochs} of {SCHEDULES[method]} | {spent / 60:.1f} | {whole / 60:.0f} ")
    sys.stdout.write(f"| {before:.1%} → {last:.1%} | {enough / 60:.1f} |\n")
    sys.stdout.flush()


def main() -> None:
    """Both methods on each domain."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--domains", default="mnist")
    parser.add_argument("--minutes", type=float, default=10.0)
    chosen = parser.parse_args()
    names = chosen.domains.split(",")
    recipe = load_digits(data_folder(chosen.data), ("synnum", *names))
    sys.stdout.write(
        "| domain | method | epochs | minutes | whole schedule, minutes | accuracy | minutes to 95 % of the gain |\n"
    )
    sys.stdout.write("| --- | --- | --- | --- | --- | --- | --- |\n")
    for target in recipe.domains[1:]:
        for method in SCHEDULES:
            run(recipe, target, method, chosen.source, chosen.minutes)


if __name__ == "__main__":
    main()
