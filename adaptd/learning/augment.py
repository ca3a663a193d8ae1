"""Random changes of training images, a whole batch at a time. Which images are in a batch is decided elsewhere.

Every image has its own parameters, and each stage is one batched matrix product: colour jitter is a 3 x 3 matrix and an
offset, applied to the pixels; mirroring, shifting and blurring are together one matrix along x and one along y.
"""

import torch
from torch import Tensor
from torch.nn import functional

from adaptd.learning.settings import AugmentationSettings

_YIQ = (0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312)
_SHARP = 1e-3
"""A deviation, in pixels, at which a Gaussian is one pixel exactly."""
_CHANCES = 9
_WARP_CHANCES = 4
_TURN, _ZOOM, _STRETCH, _SLANT = 20 * torch.pi / 180, 0.2, 0.1, 0.3
"""The most a warp of strength 1 does: 20 degrees, a fifth larger or smaller, a tenth wider or narrower, a slant of 0.3."""


def to_float(images: Tensor) -> Tensor:
    """Images as the network takes them, unchanged: uint8 → float in 0…1."""
    return images.float().div_(255)


class Augmentation:
    """Colour jitter, mirroring, shift and blur with the strengths in the settings."""

    def __init__(self, settings: AugmentationSettings) -> None:
        self.settings = settings
        self._to_yiq = torch.tensor(_YIQ)
        self._from_yiq = torch.linalg.inv(self._to_yiq)

    @staticmethod
    def draw(count: int, generator: torch.Generator) -> Tensor:
        """Chances for `count` images, [count, 9] in 0…1: all the randomness there is, so a batch may be split anywhere."""
        return torch.rand(count, _CHANCES, generator=generator)

    def __call__(self, images: Tensor, chances: Tensor) -> Tensor:
        """uint8 [n, 3, H, W] → float [n, 3, H, W] in 0…1, each image changed by its own row of chances."""
        coloured = self._jitter(images.float(), chances[:, :4])
        return self._move_and_blur(coloured, chances[:, 4:])

    def _jitter(self, images: Tensor, chances: Tensor) -> Tensor:
        """Brightness, contrast about the image's mean grey, saturation, hue; clamped once."""
        s = self.settings
        strength = torch.tensor([s.brightness, s.contrast, s.saturation])
        brightness, contrast, saturation = (1 + strength * (2 * chances[:, :3] - 1)).unbind(dim=1)
        angle = 2 * torch.pi * s.hue * (2 * chances[:, 3] - 1)
        chroma = torch.zeros(len(images), 3, 3)  # in YIQ, saturation scales the plane of I and Q, and hue turns it
        chroma[:, 0, 0] = 1
        chroma[:, 1, 1] = chroma[:, 2, 2] = saturation * angle.cos()
        chroma[:, 2, 1] = saturation * angle.sin()
        chroma[:, 1, 2] = -chroma[:, 2, 1]
        gain = (contrast * brightness / 255)[:, None, None]
        matrix = gain * (self._from_yiq @ chroma @ self._to_yiq)
        pixels = images.flatten(2)
        grey = pixels.mean(dim=2) @ self._to_yiq[0] / 255
        offset = ((1 - contrast) * brightness * grey)[:, None, None]  # grey stays grey under hue and saturation
        return torch.baddbmm(offset, matrix, pixels).clamp_(0, 1).view_as(images)

    def _move_and_blur(self, images: Tensor, chances: Tensor) -> Tensor:
        s = self.settings
        height, width = images.shape[2:]
        blurred = chances[:, 0] < s.blur_probability
        sigma = torch.where(blurred, s.blur_sigma * (0.1 + 0.9 * chances[:, 1]), _SHARP)
        mirrored = (chances[:, 2] < 0.5) & s.horizontal_flip
        right, down = ((2 * chances[:, 3:] - 1) * s.shift * torch.tensor([width, height])).round().unbind(dim=1)
        changed = (blurred | mirrored | (right != 0) | (down != 0)).nonzero().squeeze(1)
        if len(changed):
            along_x = _resampling(width, right, mirrored, sigma, changed)
            along_y = _resampling(height, down, torch.zeros_like(mirrored), sigma, changed)
            chosen = images[changed]
            rows = torch.bmm(chosen.flatten(1, 2), along_x.mT).view_as(chosen)
            images[changed] = along_y[:, None] @ rows
        return images


def draw_warp(count: int, generator: torch.Generator) -> Tensor:
    """Chances for `count` images, each in -1…1."""
    return 2 * torch.rand(count, _WARP_CHANCES, generator=generator) - 1


def warp(images: Tensor, chances: Tensor, strength: float) -> Tensor:
    """Turn, zoom, stretch and slant each image about its middle by its own row of chances; edges repeat."""
    if not strength:
        return images
    angle, zoom, stretch, slant = (chances * strength * torch.tensor([_TURN, _ZOOM, _STRETCH, _SLANT])).unbind(dim=1)
    cos, sin = angle.cos() / (1 + zoom), angle.sin() / (1 + zoom)
    rows = [cos * (1 + stretch), slant * cos - sin, sin * (1 + stretch), slant * sin + cos]
    matrix = functional.pad(torch.stack(rows, dim=1).view(-1, 2, 2), (0, 1)).to(images.device)
    grid = functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def mixup(images: Tensor, others: Tensor, most: float, generator: torch.Generator) -> Tensor:
    """Mix one of `others` into half of the images, or of their activations, with a weight of at most `most`."""
    if not most:
        return images
    count = len(images)
    weight = most * torch.rand(count, generator=generator) * (torch.rand(count, generator=generator) < 0.5)
    chosen = torch.randint(len(others), (count,), generator=generator).to(images.device)
    return torch.lerp(images, others[chosen], weight.to(images.device).view(-1, *[1] * (images.ndim - 1)))


def _resampling(size: int, shift: Tensor, mirrored: Tensor, sigma: Tensor, chosen: Tensor) -> Tensor:
    """Matrices [n, size, size] whose row i weighs the pixels that output pixel i is made of; edges repeat."""
    here = torch.arange(size, dtype=torch.float32)
    there = torch.where(mirrored[chosen, None], size - 1 - here, here) - shift[chosen, None]
    distance = there.clamp(0, size - 1)[:, :, None] - here
    exponent = (distance / sigma[chosen, None, None]).square_().mul_(-0.5).clamp_min_(-40)
    # The far tails of a Gaussian are denormal numbers, and those make a matrix product ten times slower.
    return functional.threshold(torch.softmax(exponent, dim=2), 1e-6, 0.0, inplace=True)
