"""Passes that only look, by torch and by ONNX Runtime in turn: whole networks, and what is above the cut for the last stage.

`python -m benchmarks.quick_passes` prints images a second of the fastest pass of each, on one thread, and what exporting takes.
"""

import time

import torch
from torch import Tensor, nn

from adaptd.learning import quick
from adaptd.learning.backbones import Encoding, build_classifier
from adaptd.learning.cut import cut
from adaptd.learning.quick import Pass, quicken
from adaptd.learning.settings import ModelSettings

CASES = (("lenet", 32), ("resnet18", 32), ("mobilenet_v2", 96), ("efficientnet_lite0", 224), ("resnet18", 224), ("resnet50", 224))
IMAGES, ROUNDS = 32, 5


def main() -> None:
    """Print a line for each backbone, and one for its last stage."""
    torch.set_num_threads(1)
    print("| network | pixels | part | torch, images/s | ONNX Runtime | times | exporting, s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for backbone, size in CASES:
        model = build_classifier(ModelSettings(backbone=backbone, image_size=size, classes=tuple("abcdefghij"))).eval()
        _compare(f"| {backbone} | {size} | all", Encoding(model), torch.rand(IMAGES, 3, size, size))
        if size >= 96:
            parts = cut(model, "last-stage")
            _compare("| | | last stage", Encoding(parts.upper.eval()), torch.rand(IMAGES, *parts.shape))


def _compare(name: str, module: nn.Module, images: Tensor) -> None:
    start = time.perf_counter()
    passes: tuple[Pass, Pass] = (module, quicken(module, images.shape[1:], quick.ENOUGH))
    exporting = time.perf_counter() - start
    rates = [0.0, 0.0]
    with torch.inference_mode():
        for _ in range(ROUNDS):
            for number, run in enumerate(passes):
                start = time.perf_counter()
                run(images)
                rates[number] = max(rates[number], len(images) / (time.perf_counter() - start))
    print(f"{name} | {rates[0]:.0f} | {rates[1]:.0f} | {rates[1] / rates[0]:.1f} | {exporting:.1f} |")


if __name__ == "__main__":
    main()
