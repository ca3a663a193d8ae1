"""Pictures and files for the library's tests."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adaptd.library.preprocessing import Limits, Preprocessing

Encode = Callable[..., bytes]


@pytest.fixture
def preprocessing() -> Preprocessing:
    """A small working size."""
    return Preprocessing(16)


@pytest.fixture
def limits() -> Limits:
    """Limits that a test's bombs exceed cheaply."""
    return Limits(max_file_bytes=2_000_000, max_pixels=4_000_000, max_seconds=5)


@pytest.fixture
def picture() -> Image.Image:
    """Left half red, right half blue, a green bar on top: every turn and flip of it is another picture."""
    pixels = np.zeros((64, 64, 3), dtype=np.uint8)
    pixels[:, :32, 0] = 255
    pixels[:, 32:, 2] = 255
    pixels[:16] = (0, 255, 0)
    return Image.fromarray(pixels)


@pytest.fixture
def encode() -> Encode:
    """A picture as a file's bytes."""

    def encoded(image: Image.Image, suffix: str, **options: object) -> bytes:
        target = BytesIO()
        image.save(target, suffix, **options)
        return target.getvalue()

    return encoded


@pytest.fixture
def photos(tmp_path: Path, encode: Encode) -> Path:
    """A labelled folder of twice 20 different noisy JPEGs."""
    folder = tmp_path / "photos"
    noise = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (folder / label).mkdir(parents=True)
        for number in range(20):
            image = Image.fromarray(noise.integers(0, 256, (40, 30, 3), dtype=np.uint8))
            (folder / label / f"{number:02}.jpg").write_bytes(encode(image, "JPEG"))
    return folder
