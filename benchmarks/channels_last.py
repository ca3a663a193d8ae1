"""What the memory format of an encoder's input is worth: forward and backward passes, both formats in turn.

`python -m benchmarks.channels_last` prints the least time of each.
"""

import time

import torch

from adaptd.learning.backbones import Classifier, build_classifier
from adaptd.learning.settings import ModelSettings

CASES = (("lenet", 32, 256), ("mobilenet_v2", 96, 32), ("resnet18", 96, 32))
ROUNDS = 12


def main() -> None:
    """Print a line for each backbone."""
    torch.set_num_threads(1)
    for backbone, size, batch in CASES:
        model = build_classifier(ModelSettings(backbone=backbone, image_size=size, classes=tuple("abcdefghij"))).eval()
        images = torch.rand(batch, 3, size, size)
        taken: dict[torch.memory_format, list[float]] = {torch.contiguous_format: [], torch.channels_last: []}
        for _ in range(ROUNDS):
            for memory_format, seconds in taken.items():
                seconds.append(_time(model, images.contiguous(memory_format=memory_format)))
        plain, last = (1000 * min(seconds) for seconds in taken.values())
        print(
            f"{backbone} at {size} px, {batch} images: {plain:.0f} ms as it is, {last:.0f} ms channels last, {plain / last:.2f}x"
        )


def _time(model: Classifier, images: torch.Tensor) -> float:
    start = time.process_time()
    # Not through `encode`, which chooses the format itself.
    torch.autograd.backward(model.classify(model.encoder(images)).sum())
    return time.process_time() - start


if __name__ == "__main__":
    main()
