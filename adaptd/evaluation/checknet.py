"""Check models: small networks that learn from the source alone, to be asked for a second opinion about a domain without labels.

They see images at 32 pixels or less, changed so strongly that only shapes are left to go by, and take each domain's statistics
for normalisation. Two of them may then teach each other a domain: self-training ensembles (Chen et al. 2021, arXiv:2106.15728).
They never see what another model takes a domain's images for. Who asks them, and what follows, is `checks`'.
"""

import math
from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.adamw import adamw

from adaptd.library.imageset import Gathered, ImageSet, spread_rows

SIDE = 32
WIDTHS = (16, 32, 64)
HIDDEN = 64
BATCH = 64
LEAST_STEPS, MOST_STEPS, EPOCHS = 60, 600, 12
"""Training takes so many passes over the source, within these bounds."""
RATE, RISE, SMOOTHING = 0.006, 0.3, 0.05
ROUNDS, LEAST_ROUND, MOST_ROUND, PASSES = 2, 10, 100, 2
"""Self-training: so many rounds, each of so many passes over the domain, within these bounds of steps."""
TAUGHT_RATE = 0.002
STATISTICS_IMAGES = 512
"""Images of a domain that its statistics are taken from."""


class CheckModel(nn.Module):
    """Three convolutions and a hidden layer, each with batch normalisation. Takes float images in 0…1, [n, 3, side, side]."""

    def __init__(self, classes: int, side: int) -> None:
        super().__init__()
        self.side = side
        layers: list[nn.Module] = []
        for before, width in zip((3, *WIDTHS), WIDTHS, strict=False):
            layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        left = side // 2 ** len(WIDTHS)
        layers += [nn.Flatten(), nn.Linear(WIDTHS[-1] * left * left, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(HIDDEN, classes))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # takes a third less time

    def forward(self, images: Tensor) -> Tensor:
        """Logits, [n, classes]; every image has its own brightness and contrast taken out first."""
        spread = images.std(dim=(1, 2, 3), keepdim=True) + 0.05
        plain = (images - images.mean(dim=(1, 2, 3), keepdim=True)) / spread
        logits: Tensor = self.layers(plain.contiguous(memory_format=torch.channels_last))
        return logits


def build_check(source: ImageSet, classes: int) -> CheckModel:
    """One that has learned nothing yet, for images of this size."""
    return CheckModel(classes, min(SIDE, max(8, source.pixels.shape[2] // 8 * 8)))


def train_check(source: ImageSet, classes: int, seed: int) -> CheckModel:
    """A check model from a labelled source; the same seed gives the same one."""
    assert source.labels is not None
    steps = min(MOST_STEPS, max(LEAST_STEPS, EPOCHS * -(-len(source) // BATCH)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_check(source, classes)
    _train(model, (source,), steps, RATE, seed)
    return model


def teach_checks(models: Sequence[CheckModel], source: ImageSet, domain: ImageSet, batch_size: int) -> tuple[CheckModel, ...]:
    """Copies of check models that have learned a domain from what they agree on, and the source's labels beside it."""
    taught = tuple(deepcopy(model) for model in models)
    steps = min(MOST_ROUND, max(LEAST_ROUND, PASSES * -(-len(domain) // (BATCH // 2))))
    for number in range(1, ROUNDS + 1):
        answers = [ask_check(model, domain, domain, batch_size) for model in taught]
        said, labels = np.stack([answer.argmax(axis=1) for answer in answers]), np.mean(answers, axis=0).argmax(axis=1)
        rows = np.flatnonzero((said == said[0]).all(axis=0))
        if len(rows) < 2:
            break
        agreed = ImageSet(domain.ids[rows], Gathered([domain.pixels], rows), labels[rows].astype(np.int64))
        for place, model in enumerate(taught):
            _train(model, (source, agreed), steps, TAUGHT_RATE, len(taught) * number + place)
    return taught


def _train(model: CheckModel, sets: Sequence[ImageSet], steps: int, rate: float, seed: int) -> None:
    """Learn from labelled sets, as many images of each in every step; each is normalised by its own statistics."""
    random = torch.Generator().manual_seed(seed)
    optimizer = OneCycle(list(model.parameters()), rate, steps)
    model.train()
    for _ in range(steps):
        loss = torch.zeros(())
        for images in sets:
            assert images.labels is not None
            rows = torch.randint(len(images), (min(BATCH // len(sets), max(2, len(images))),), generator=random).numpy()
            logits = model(strengthen(_resize(images.pixels[rows], model.side), random))
            labels = torch.from_numpy(np.array(images.labels[rows]))
            loss = loss + functional.cross_entropy(logits, labels, label_smoothing=SMOOTHING)
        optimizer.step(torch.autograd.grad(loss, optimizer.parameters))


def ask_check(model: CheckModel, images: ImageSet, statistics: ImageSet, batch_size: int) -> NDArray[np.float64]:
    """Class probabilities, [n, classes], of images from a domain that another set of its images stands for."""
    with torch.no_grad():
        _take_statistics(model, statistics)
        model.eval()
        starts = range(0, len(images), batch_size)
        found = [model(_resize(images.pixels[i : i + batch_size], model.side)).double().softmax(dim=1) for i in starts]
    answers: NDArray[np.float64] = torch.cat(found).numpy()
    return answers


def strengthen(images: Tensor, random: torch.Generator) -> Tensor:
    """Images as a check model learns from them: turned and scaled, colours mixed or inverted, with patches of light and noise."""
    count = len(images)

    def draw(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=random)

    angle, zoom, slant = draw(-0.35, 0.35), draw(0.8, 1.25), draw(-0.3, 0.3)
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    matrix = torch.stack([cos, slant * cos - sin, sin, slant * sin + cos], dim=1).view(-1, 2, 2)
    grid = functional.affine_grid(functional.pad(matrix, (0, 1)), list(images.shape), align_corners=False)
    turned = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    turned = torch.where(draw(0, 1, 1, 1, 1) < 0.5, 1 - turned, turned)
    weights = draw(-0.5, 1.5, 3, 3)
    coloured = torch.einsum("nij,njhw->nihw", weights / weights.sum(dim=2, keepdim=True).clamp_min(0.5), turned)
    lights = functional.interpolate(draw(-1, 1, 3, 5, 5), size=images.shape[2:], mode="bilinear", align_corners=False)
    noise = torch.randn(images.shape, generator=random)
    return coloured.clamp(-0.5, 1.5) + draw(0, 0.6, 1, 1, 1) * lights + draw(0, 0.1, 1, 1, 1) * noise


class OneCycle:
    """AdamW whose rate rises and falls once, and its momentum against that: torch's OneCycleLR, step for step.

    Through torch's function, because its optimizers load a compiler when the first is made, seconds in every worker.
    """

    def __init__(self, parameters: list[nn.Parameter], peak: float, steps: int) -> None:
        self.parameters, self._peak, self._steps, self._taken = parameters, peak, steps, 0
        self._means, self._squares = ([torch.zeros_like(each) for each in parameters] for _ in range(2))
        self._counts = [torch.zeros(()) for _ in parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Move the parameters."""
        rise = RISE * self._steps - 1
        if self._taken <= rise:
            up = _ease(self._taken / rise)
            rate, momentum = self._peak * (1 / 25 + up * 24 / 25), 0.95 - up * 0.1
        else:
            down = _ease((self._taken - rise) / (self._steps - 1 - rise))
            rate, momentum = self._peak * (1 - down * (1 - 1 / 250_000)), 0.85 + down * 0.1
        self._taken += 1
        adamw(
            list[Tensor](self.parameters),
            list(gradients),
            self._means,
            self._squares,
            [],
            self._counts,
            amsgrad=False,
            beta1=momentum,
            beta2=0.999,
            lr=rate,
            weight_decay=1e-3,
            eps=1e-8,
            maximize=False,
        )


def _ease(share: float) -> float:
    """From 0 to 1 along half a cosine."""
    return (1 - math.cos(math.pi * share)) / 2


def _take_statistics(model: CheckModel, images: ImageSet) -> None:
    """Normalise with the statistics of these images, whatever was learned with."""
    rows = spread_rows(len(images), STATISTICS_IMAGES)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    model.train()
    model(_resize(images.pixels[rows if len(rows) > 1 else np.repeat(rows, 2)], model.side))


def _resize(pixels: NDArray[np.uint8], side: int) -> Tensor:
    images = torch.from_numpy(np.array(pixels)).float().div_(255)
    return images if images.shape[2:] == (side, side) else functional.interpolate(images, size=(side, side), mode="area")
