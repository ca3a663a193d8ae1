"""What a GRCL step costs: against one multitask step, and against the bare passes it cannot do without.

    python -m benchmarks.step_cost [--seconds 60] [--threads 0] [--out benchmarks/out/step_cost.json]

All three take turns on the same batches (A B C A B C …), so a noisy machine disturbs them alike. GRCL and multitask are
whole episodes, from reading images to new weights, as in `adaptd adapt`.
"""

import argparse
import copy
import json
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.batches import Batch, EpisodeData
from adaptd.learning.grcl import Contrast, contrastive_loss
from adaptd.learning.loop import Training
from adaptd.learning.methods.contrastive import Contrastive
from adaptd.learning.plan import Plan
from adaptd.learning.settings import ModelSettings, TrainingSettings
from adaptd.library.imageset import ImageSet
from adaptd.project.settings import Settings

CASES = (("lenet", 32), ("resnet18", 64))
BATCH = 256  # 64 source + 64 memory + 128 target
GOALS = {"grcl / multitask": 1.35, "projection / grcl": 0.15}


def episode(method: str, backbone: str, size: int, threads: int, memories: int = 1) -> Training:
    """An episode on random images, long enough never to end here."""
    rng = np.random.default_rng(0)

    def images(count: int, first: int) -> ImageSet:
        pixels = rng.integers(0, 256, (count, 3, size, size), dtype=np.uint8)
        return ImageSet(np.arange(first, first + count), pixels, rng.integers(0, 10, count))

    model = ModelSettings(backbone=backbone, image_size=size, classes=tuple("0123456789"))
    training = TrainingSettings(epochs=1000, batch_size=BATCH, learning_rate=1e-4, threads=threads, depth="all")
    remembered = tuple(images(256, 1000 * number) for number in range(1, memories + 1))
    data = EpisodeData(images(256, 0), remembered, images(512, 1000 * (memories + 1)))
    return Training(build_classifier(model), data, Plan.for_adaptation(Settings(model=model, training=training), method))


def bare_passes(model: Classifier, batch: Batch, contrast: Contrast) -> None:
    """The forward and backward passes GRCL needs, and nothing else: no reading, projection, optimizer or bank."""
    for part in batch.parts:
        model.zero_grad(set_to_none=True)
        features = model.encode(part.images)
        loss = contrastive_loss(model.embed(features), part.rows, contrast)
        torch.autograd.backward(loss, retain_graph=part.labels is not None)
        if part.labels is not None:
            model.zero_grad(set_to_none=True)
            torch.autograd.backward(functional.cross_entropy(model.classify(features), part.labels, reduction="sum"))


def timed(work: Callable[[], object]) -> float:
    """Seconds that work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(backbone: str, size: int, seconds: float, threads: int) -> dict[str, Any]:
    """Take turns for some time; medians, quartiles and ratios."""
    grcl, multitask = (episode(name, backbone, size, threads) for name in ("grcl", "contrastive+source+memory"))
    steps, others = iter(grcl), iter(multitask)
    next(steps), next(others)
    assert isinstance(grcl.method, Contrastive)
    model, method, stepper = copy.deepcopy(grcl.model).eval(), grcl.method, grcl.method.parameters.steppers[0]
    square = torch.rand(1024, 1024)
    times: dict[str, list[float]] = {name: [] for name in ("grcl", "multitask", "bare", "reading", "projection", "gemm")}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["grcl"]) < 5:
        times["grcl"].append(next(steps).seconds)
        times["projection"].append(timed(stepper.gram) + timed(lambda: stepper.combine([1 / BATCH, 1e-3, 1e-3])))
        times["multitask"].append(next(others).seconds)
        start = time.perf_counter()
        batch = grcl.batches[grcl.step]
        times["reading"].append(time.perf_counter() - start)
        contrast = method.contrast(batch)
        times["bare"].append(timed(lambda b=batch, c=contrast: bare_passes(model, b, c)))  # type: ignore[misc]
        times["gemm"].append(timed(lambda: square @ square))
    return summary(times) | {"backbone": backbone, "size": size, "parameters": method.parameters.theta.numel()}


def summary(times: dict[str, list[float]]) -> dict[str, Any]:
    """Ratios are medians of the ratios within a turn."""

    def ratio(one: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(times[one], times[other], strict=True))

    return {
        "turns": len(times["grcl"]),
        "median_ms": {name: 1e3 * statistics.median(values) for name, values in times.items()},
        "p25_ms": {name: 1e3 * statistics.quantiles(values, n=4)[0] for name, values in times.items()},
        "ratios": {
            "grcl / multitask": ratio("grcl", "multitask"),
            "grcl / bare": ratio("grcl", "bare"),
            "projection / grcl": ratio("projection", "grcl"),
            "reading / grcl": ratio("reading", "grcl"),
        },
        "gemm_gflops": 2 * 1024**3 / statistics.median(times["gemm"]) / 1e9,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def show(result: dict[str, Any]) -> None:
    """One table a case."""
    print(
        f"\n{result['backbone']} at {result['size']} px, batch {BATCH}, {result['parameters']:,} parameters, "
        f"{result['turns']} turns, GEMM {result['gemm_gflops']:.0f} GFLOP/s, peak {result['peak_memory_mb']:.0f} MB"
    )
    for name, median in result["median_ms"].items():
        print(f"  {name:20} {median:9.1f} ms   p25 {result['p25_ms'][name]:9.1f} ms")
    for name, value in result["ratios"].items():
        print(f"  {name:20} {value:9.3f}" + (f"      goal ≤ {GOALS[name]}" if name in GOALS else ""))


def main() -> None:
    """Measure every case, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="time for each case")
    parser.add_argument("--threads", type=int, default=0, help="0: all; 1 for honest ratios while others use the machine")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/step_cost.json"))
    options = parser.parse_args()
    results = []
    for backbone, size in CASES:
        results.append(measure(backbone, size, options.seconds, options.threads))
        show(results[-1])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(
        json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "cases": results}, indent=2)
    )


if __name__ == "__main__":
    main()
