"""How a picture becomes pixels, said once as data, because serving must repeat it. Decoding itself is in `decode`."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """From a picture of any size to an RGB square of `image_size`.

    `stretch-bilinear`: turned upright as EXIF says, alpha laid on white, 16-bit samples scaled to 8, colours taken as
    sRGB without regard to ICC profiles, then resized to the square with Pillow's antialiased bilinear filter, the
    aspect ratio not kept. Nothing is cropped away: in a domain nobody labelled, nobody promised that the object is in
    the middle. A JPEG of at least four times the working size is brought down to no less than twice of it while it is
    decoded.
    """

    image_size: int
    resize: Literal["stretch-bilinear"] = "stretch-bilinear"

    def __post_init__(self) -> None:
        if self.image_size < 1:
            raise ValueError(f"image_size must be at least 1, not {self.image_size}")
        if self.resize != "stretch-bilinear":
            raise ValueError(f"unknown resize {self.resize!r}; this adaptd knows 'stretch-bilinear'")

    @property
    def row_bytes(self) -> int:
        """The size of one decoded image."""
        return 3 * self.image_size * self.image_size

    def to_json(self) -> dict[str, Any]:
        """For a cache's index, a model card, an ONNX file's metadata."""
        return {"image_size": self.image_size, "resize": self.resize}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may cost. The defaults are those of `[intake]`; seconds are of processor time."""

    max_file_bytes: int = 64_000_000
    max_pixels: int = 50_000_000
    max_seconds: float = 20.0

    @property
    def memory_bytes(self) -> int:
        """Address space a decoder may take on top of its own: four RGBA pictures, the file twice, and some air."""
        return 16 * self.max_pixels + 2 * self.max_file_bytes + 256 * 1024 * 1024
