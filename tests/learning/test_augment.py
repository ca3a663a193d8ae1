"""Batched augmentation."""

import pytest
import torch

from adaptd.learning.augment import Augmentation, draw_warp, mixup, to_float, warp
from adaptd.learning.settings import AugmentationSettings

NOTHING = {
    "brightness": 0.0,
    "contrast": 0.0,
    "saturation": 0.0,
    "hue": 0.0,
    "blur_probability": 0.0,
    "horizontal_flip": False,
    "shift": 0.0,
}


def images(count: int = 8, size: int = 12) -> torch.Tensor:
    """Random pixels."""
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def augment(pixels: torch.Tensor, chances: torch.Tensor, **settings) -> torch.Tensor:
    """Only the changes that are asked for."""
    return Augmentation(AugmentationSettings(**NOTHING | settings))(pixels, chances)


def chances(count: int = 8, seed: int = 1) -> torch.Tensor:
    """One row of chances an image."""
    return Augmentation.draw(count, torch.Generator().manual_seed(seed))


def test_everything_off_changes_nothing():
    """With all strengths at zero the images come out as they went in, as floats."""
    torch.testing.assert_close(augment(images(), chances()), to_float(images()), atol=1e-5, rtol=0)


def test_defaults_change_every_image_within_bounds():
    """With default settings each image is changed, and stays in 0…1 and finite."""
    out = Augmentation(AugmentationSettings())(images(), chances())
    assert ((out - to_float(images())).abs().amax(dim=(1, 2, 3)) > 0.01).all()
    assert out.min() >= 0
    assert out.max() <= 1 + 1e-6


def test_a_batch_may_be_split_anywhere():
    """An image's change depends on its own pixels and chances, not on its neighbours."""
    whole = Augmentation(AugmentationSettings(shift=0.2))(images(), chances())
    parts = [Augmentation(AugmentationSettings(shift=0.2))(images()[a:b], chances()[a:b]) for a, b in ((0, 1), (1, 6), (6, 8))]
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-6, rtol=0)


def test_input_is_left_alone():
    """The pixels given, which may be a memory map, are not written to."""
    pixels = images()
    Augmentation(AugmentationSettings())(pixels, chances())
    assert torch.equal(pixels, images())


def test_flip_mirrors_exactly():
    """With flip on, an image is itself or its exact mirror image, by its chance; off, it is never mirrored."""
    drawn = chances()
    out = augment(images(), drawn, horizontal_flip=True)
    plain = augment(images(), drawn)
    mirrored = drawn[:, 6] < 0.5
    assert mirrored.any()
    assert not mirrored.all()
    assert torch.equal(out, torch.where(mirrored[:, None, None, None], plain.flip(3), plain))


def test_shift_moves_whole_pixels_and_repeats_edges():
    """A chance of 1 moves by the full share to the right and down; the edge fills what is left."""
    drawn = torch.full((1, 9), 0.5)
    drawn[:, 7:] = 1.0
    pixels = images(1)
    out = augment(pixels, drawn, shift=0.25)  # 3 of 12 pixels
    plain = augment(pixels, drawn)
    assert torch.equal(out[..., 3:, 3:], plain[..., :-3, :-3])
    assert torch.equal(out[..., 0, 3:], plain[..., 0, :-3])


def test_blur_is_a_gaussian():
    """A white point becomes a Gaussian of the drawn deviation, of the same sum."""
    pixels = torch.zeros(1, 3, 25, 25, dtype=torch.uint8)
    pixels[..., 12, 12] = 255
    drawn = torch.full((1, 9), 0.5)
    drawn[:, 5] = 1.0  # the largest deviation
    out = augment(pixels, drawn, blur_probability=1.0, blur_sigma=2.0)[0, 0]
    assert out.sum().item() == pytest.approx(1, rel=1e-4)
    across = out.sum(dim=0)
    spread = (across * (torch.arange(25.0) - 12) ** 2).sum().sqrt()
    assert spread.item() == pytest.approx(2.0, rel=0.01)


def test_colour_changes_by_hand():
    """Brightness scales, contrast pulls towards the mean grey, saturation 0 is grey, and grey has no hue."""
    drawn = torch.full((1, 9), 0.5)
    drawn[:, :4] = torch.tensor([0.0, 0.5, 0.5, 0.5])
    torch.testing.assert_close(augment(images(1), drawn, brightness=0.4), 0.6 * to_float(images(1)), atol=1e-4, rtol=0)
    drawn[:, :4] = torch.tensor([0.5, 0.0, 0.5, 0.5])
    flat = augment(images(1), drawn, contrast=1.0)
    assert (flat.amax() - flat.amin()).item() < 1e-4
    drawn[:, :4] = torch.tensor([0.5, 0.5, 0.0, 0.5])
    grey = augment(images(1), drawn, saturation=1.0)
    torch.testing.assert_close(grey[:, 0], grey[:, 2], atol=2e-3, rtol=0)
    drawn[:, :4] = torch.tensor([0.5, 0.5, 0.5, 1.0])
    torch.testing.assert_close(augment((grey * 255).byte(), drawn, hue=0.5), (grey * 255).byte() / 255, atol=5e-3, rtol=0)


def test_a_warp_of_strength_zero_or_without_chance_changes_nothing():
    """Neither strength 0 nor chances in the middle move a pixel."""
    plain = to_float(images())
    assert warp(plain, draw_warp(8, torch.Generator().manual_seed(1)), 0.0) is plain
    torch.testing.assert_close(warp(plain, torch.zeros(8, 4), 1.0), plain, atol=1e-5, rtol=0)


def test_a_warp_turns_and_zooms_about_the_middle():
    """A single bright pixel in the middle stays there; one at the rim moves."""
    picture = torch.zeros(1, 3, 13, 13)
    picture[:, :, 6, 6] = 1.0
    chances = torch.tensor([[1.0, 0.5, -0.5, 0.8]])
    assert warp(picture, chances, 1.0)[0, 0].argmax() == 6 * 13 + 6
    rim = picture.roll((5, 0), (2, 3))
    assert warp(rim, chances, 1.0)[0, 0].argmax() != rim[0, 0].argmax()


def test_mixup_keeps_every_image_the_stronger_one():
    """About half of the images are left alone; another one is mixed into the rest by at most the weight given."""
    black, white = torch.zeros(200, 3, 4, 4), torch.ones(5, 3, 4, 4)
    weights = mixup(black, white, 0.4, torch.Generator().manual_seed(0))[:, 0, 0, 0]
    assert weights.max() <= 0.4
    assert 60 < int((weights == 0).sum()) < 140
    assert mixup(black, white, 0.0, torch.Generator()) is black
