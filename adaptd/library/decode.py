"""One untrusted image → verified RGB at working size. A refusal is ImageRejected; many files at once are in `draft`.

Accepted are JPEG, PNG, WebP, AVIF, GIF, BMP, TIFF and, with the extra `heif`, HEIC, whatever the file is called. Of an
animation or a multi-page file the first frame counts. 32-bit and floating-point samples are refused: they have no range to
scale from.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray

# Naming the plugins keeps Pillow from loading all of its formats when a file is none of these.
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

from adaptd.errors import ImageRejected
from adaptd.library.preprocessing import Limits, Preprocessing
from adaptd.library.reading import find_archive, read_untrusted
from adaptd.records import Reason

try:
    import pillow_heif
except ImportError:
    _HEIC: tuple[str, ...] = ()
else:
    # One picture of a file, by one thread: the others would cost memory, and the time of a decoder is counted.
    pillow_heif.register_heif_opener(thumbnails=False, depth_images=False, aux_images=False, decode_threads=1)
    _HEIC = ("HEIF",)
AvifImagePlugin.DEFAULT_MAX_THREADS = 1

_PLUGINS = (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", *_HEIC)
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_MAGIC = (b"\xff\xd8", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF")
_FOREIGN = {b"8BPS": "Photoshop", b"%!PS": "PostScript", b"%PDF": "PDF", b"\0\0\1\0": "icon", b"<svg": "SVG"}

Size = tuple[int, int]

_ORIENTATION_TAG = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True)
class DecodedImage:
    """A verified picture: uint8 [3, S, S], and what is known of its file. Width and height are as stored, unturned."""

    pixels: NDArray[np.uint8]
    sha256: str
    size_bytes: int
    width: int
    height: int


def decode_file(path: Path, preprocessing: Preprocessing, limits: Limits, root: Path | None = None) -> DecodedImage:
    """Read a file once, verify it, decode it. Below `root` no link is followed."""
    return decode_bytes(read_untrusted(path, limits.max_file_bytes, root), preprocessing, limits)


def decode_bytes(data: bytes, preprocessing: Preprocessing, limits: Limits) -> DecodedImage:
    """Verify and decode one file's content. Raises ImageRejected and, machine trouble aside, nothing else."""
    if not data:
        raise ImageRejected(Reason.EMPTY, "0 bytes")
    if len(data) > limits.max_file_bytes:
        raise ImageRejected(Reason.TOO_LARGE, f"{len(data)} bytes, at most {limits.max_file_bytes} are let in")
    try:
        square, (width, height) = _fast_jpeg(data, preprocessing, limits) or _any_format(data, preprocessing, limits)
    except ImageRejected:
        raise
    # Decoders fed with garbage raise nearly every kind of exception; here, and only here, all of them mean one thing.
    except Exception as error:
        raise _rejection(data, error) from error
    pixels = np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))
    return DecodedImage(pixels, hashlib.sha256(data).hexdigest(), len(data), width, height)


def convert_picture(image: Image.Image, preprocessing: Preprocessing, limits: Limits) -> NDArray[np.uint8]:
    """The pixels of a picture that somebody has decoded already: uint8 [3, S, S]. Raises ImageRejected."""
    _check_pixels(*image.size, limits)
    square = _square(_plain(image), preprocessing.image_size, _orientation(image))
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


def measure_pixels(data: bytes) -> int:
    """How many pixels a file's header says that it has; 0 where none can be read, and decoding it tells why."""
    # What reading garbage may raise is open-ended.
    with suppress(Exception), Image.open(BytesIO(data), formats=_FORMATS) as image:
        return image.width * image.height
    return 0


def _check_pixels(width: int, height: int, limits: Limits) -> None:
    # Pillow only warns from MAX_IMAGE_PIXELS on; here that is refused, however high the setting is.
    allowed = min(limits.max_pixels, Image.MAX_IMAGE_PIXELS or limits.max_pixels)
    if width * height > allowed:
        raise ImageRejected(Reason.TOO_MANY_PIXELS, f"{width} by {height} pixels, at most {allowed} are let in")


def _fast_jpeg(data: bytes, preprocessing: Preprocessing, limits: Limits) -> tuple[Image.Image, Size] | None:
    """An ordinary JPEG at twice Pillow's speed; None for what Pillow has to do: CMYK, odd but whole files."""
    if not data.startswith(b"\xff\xd8"):
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        if colours not in {"YCbCr", "RGB", "Gray"}:
            return None
        _check_pixels(width, height, limits)
        # Twice the working size is left for the resize, so that its filter, not the DCT's, decides about sharpness.
        least = 2 * preprocessing.image_size
        scale = {"min_height": least, "min_width": least, "min_factor": 2} if min(width, height) >= 2 * least else {}
        pixels = simplejpeg.decode_jpeg(data, colorspace="GRAY" if colours == "Gray" else "RGB", **scale)
    except ValueError as error:
        if "remature end" in str(error):
            raise ImageRejected(Reason.TRUNCATED, "the file ends before its picture does") from error
        return None
    image = Image.fromarray(pixels[:, :, 0] if colours == "Gray" else pixels)
    return _square(image, preprocessing.image_size, _jpeg_orientation(data)), (width, height)


def _jpeg_orientation(data: bytes) -> int:
    # Looking for the words is far cheaper than parsing the header of every file that has none of them.
    if b"Exif\0\0" not in data and b"tiff:Orientation" not in data:
        return 1
    with suppress(Exception), Image.open(BytesIO(data), formats=("JPEG",)) as image:
        return _orientation(image)
    return 1


def _any_format(data: bytes, preprocessing: Preprocessing, limits: Limits) -> tuple[Image.Image, Size]:
    with Image.open(BytesIO(data), formats=_FORMATS) as image:
        size = image.size
        _check_pixels(*size, limits)
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            # libtiff makes room for a whole tile, however small the picture in it: 1 GB for a file of 200 bytes.
            _check_pixels(int(image.tag_v2.get(322, 1)), int(image.tag_v2.get(323, 1)), limits)
        return _square(_plain(image), preprocessing.image_size, _orientation(image)), size


def _square(image: Image.Image, size: int, orientation: int) -> Image.Image:
    """L, RGB or RGBA of any size → RGB, a square of `size`, upright."""
    # Resizing before compositing and turning gives the same picture as after and moves fewer bytes: the filter is
    # linear and symmetric, and Pillow weighs colours by their alpha.
    image = image.resize((size, size), Image.Resampling.BILINEAR)
    if image.mode == "RGBA":
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    if orientation in _UPRIGHT:
        image = image.transpose(_UPRIGHT[orientation])
    return image if image.mode == "RGB" else image.convert("RGB")


def _plain(image: Image.Image) -> Image.Image:
    """L, RGB or RGBA at full size, through Pillow."""
    image.load()
    if image.mode.startswith("I;16"):
        # Pillow's own conversion clips at 255. A table scales without a large intermediate.
        table = np.round(np.arange(65536) / 257).astype(np.uint8)
        return Image.fromarray(table[np.asarray(image)])
    if image.mode in {"I", "F"}:
        raise ImageRejected(Reason.FORMAT, "32-bit samples have no range to scale from; save it with 8 or 16 bits")
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in {"1", "L"} else "RGB")


def _orientation(image: Image.Image) -> int:
    # A broken EXIF block does not make a bad picture, and what reading one may raise is open-ended.
    with suppress(Exception):
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    return 1


def _rejection(data: bytes, error: Exception) -> ImageRejected:
    """The one place where a decoder's complaint becomes a reason."""
    known = data.startswith(_MAGIC)
    match error:
        case Image.DecompressionBombError() | Image.DecompressionBombWarning():
            return ImageRejected(Reason.TOO_MANY_PIXELS, "far more pixels than any picture has")
        case MemoryError():
            return ImageRejected(Reason.TOO_COSTLY, "decoding it takes more memory than one picture may")
        case UnidentifiedImageError() if not known:
            return _unidentified(data)
        case UnidentifiedImageError():
            return ImageRejected(Reason.DAMAGED, "its header cannot be read")
    text = " ".join(str(error).split())[:200] or type(error).__name__
    if isinstance(error, EOFError) or "truncated" in text.lower():
        return ImageRejected(Reason.TRUNCATED, text)
    return ImageRejected(Reason.DAMAGED, text)


def _unidentified(data: bytes) -> ImageRejected:
    accepted = "accepted are JPEG, PNG, WebP, AVIF, GIF, BMP, TIFF and HEIC"
    if archive := find_archive(data):
        return archive
    if data[4:8] == b"ftyp" and data[8:12] in _HEIC_BRANDS and not _HEIC:
        return ImageRejected(
            Reason.FORMAT, "HEIC, which needs the package pillow-heif: pip install 'adaptd[heif]', then restore it"
        )
    if data[4:8] == b"ftyp":
        return ImageRejected(Reason.FORMAT, f"a video, or another kind of HEIF; {accepted}")
    for magic, name in _FOREIGN.items():
        if data.startswith(magic):
            return ImageRejected(Reason.FORMAT, f"{name}; {accepted}")
    return ImageRejected(Reason.NOT_AN_IMAGE, accepted)
