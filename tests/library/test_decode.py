"""Odd pictures are decoded right, and everything else is refused with a reason."""

import hashlib
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from adaptd.errors import ImageRejected
from adaptd.library.decode import decode_bytes, decode_file
from adaptd.library.preprocessing import Limits, Preprocessing

RED, BLUE, GREEN, WHITE = (255, 0, 0), (0, 0, 255), (0, 255, 0), (255, 255, 255)
FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF"]


def corners(pixels):
    """Colours near the bottom left, bottom right and top middle."""
    size = pixels.shape[1]
    return [pixels[:, y, x].tolist() for y, x in ((size - 2, 2), (size - 2, size - 3), (1, size // 2))]


def assert_close(pixels, *colours, tolerance=12):
    """The corners have these colours, nearly."""
    for found, wanted in zip(corners(pixels), colours, strict=True):
        assert np.abs(np.array(found) - np.array(wanted)).max() <= tolerance, corners(pixels)


def reason_of(data, preprocessing, limits):
    """Why these bytes are refused."""
    with pytest.raises(ImageRejected) as rejected:
        decode_bytes(data, preprocessing, limits)
    assert rejected.value.detail
    return rejected.value.reason


def png(width, height, content=b"", depth=8, colour=2):
    """A PNG made by hand, so that it may lie."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", content) + chunk(b"IEND", b"")


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_picture(suffix, picture, encode, preprocessing, limits):
    """Each accepted format comes out as planar RGB of the working size, with the file's facts."""
    data = encode(picture, suffix, quality=95)
    image = decode_bytes(data, preprocessing, limits)
    assert image.pixels.shape == (3, 16, 16)
    assert image.pixels.dtype == np.uint8
    assert_close(image.pixels, RED, BLUE, GREEN)
    assert (image.sha256, image.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert (image.width, image.height) == picture.size


@pytest.mark.parametrize("suffix", FORMATS)
def test_one_pixel_is_a_picture(suffix, encode, preprocessing, limits):
    """The smallest picture fills the square with its colour."""
    image = decode_bytes(encode(Image.new("RGB", (1, 1), "white"), suffix), preprocessing, limits)
    assert (image.pixels >= 250).all()


@pytest.mark.parametrize("suffix", ["JPEG", "PNG", "TIFF"])
def test_grey_fills_all_channels(suffix, encode, preprocessing, limits):
    """A grey picture has three equal channels."""
    image = decode_bytes(encode(Image.new("L", (40, 30), 100), suffix), preprocessing, limits)
    assert (np.abs(image.pixels.astype(int) - 100) <= 1).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_lies_on_white(mode, encode, preprocessing, limits):
    """What is transparent is white, also where black hides under it; what is opaque keeps its colour."""
    image = Image.new("RGBA", (32, 32), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 16, 32))
    pixels = decode_bytes(encode(image.convert(mode), "PNG"), preprocessing, limits).pixels
    assert pixels[:, 8, 1].tolist() == [0, 0, 0]
    assert pixels[:, 8, 14].tolist() == [255, 255, 255]


def test_half_transparent_edges_do_not_darken(encode, preprocessing, limits):
    """White that fades out over hidden black stays white everywhere after resizing."""
    image = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    image.paste((255, 255, 255, 128), (10, 10, 50, 50))
    assert (decode_bytes(encode(image, "PNG"), preprocessing, limits).pixels >= 254).all()


@pytest.mark.parametrize("suffix", ["PNG", "TIFF"])
@pytest.mark.parametrize("value", [0, 300, 32768, 65535])
def test_sixteen_bits_are_scaled(suffix, value, encode, preprocessing, limits):
    """16-bit grey is scaled to 8 bits, not clipped."""
    image = Image.fromarray(np.full((20, 20), value, dtype=np.uint16))
    pixels = decode_bytes(encode(image, suffix), preprocessing, limits).pixels
    assert (pixels == round(value / 257)).all()


def test_sixteen_bit_colour_is_scaled(preprocessing, limits):
    """16-bit RGB is scaled to 8 bits."""
    content = zlib.compress(b"".join(b"\0" + struct.pack(">HHH", 65535, 32768, 0) * 4 for _ in range(4)))
    pixels = decode_bytes(png(4, 4, content, depth=16), preprocessing, limits).pixels
    assert pixels[:, 5, 5].tolist() == [255, 128, 0]


def test_cmyk(picture, encode, preprocessing, limits):
    """A CMYK JPEG, which the fast decoder cannot do, has its colours."""
    pixels = decode_bytes(encode(picture.convert("CMYK"), "JPEG", quality=95), preprocessing, limits).pixels
    assert_close(pixels, RED, BLUE, GREEN, tolerance=20)


@pytest.mark.parametrize("suffix", ["TIFF"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_samples_without_range_are_refused(suffix, dtype, encode, preprocessing, limits):
    """32-bit samples are refused by format instead of being clipped to white."""
    data = encode(Image.fromarray(np.full((4, 4), 7, dtype=dtype)), suffix)
    assert reason_of(data, preprocessing, limits) == "format"


# HEIF says by a property of its own how a picture is turned, which the library follows; its EXIF does not count.
@pytest.mark.parametrize("suffix", ["JPEG", "PNG", "WEBP", "AVIF"])
@pytest.mark.parametrize("turned", [(1, None), (2, 0), (3, 3), (4, 1), (5, 5), (6, 2), (7, 6), (8, 4)])
def test_exif_orientation_is_honoured(suffix, turned, picture, encode, limits):
    """A picture stored turned or mirrored, and marked so, comes out upright."""
    orientation, undo = turned
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = picture if undo is None else picture.transpose(Image.Transpose(undo))
    pixels = decode_bytes(encode(stored, suffix, exif=exif, quality=95), Preprocessing(16), limits).pixels
    assert_close(pixels, RED, BLUE, GREEN)


@pytest.mark.parametrize("suffix", ["GIF", "WEBP", "PNG", "TIFF"])
def test_first_frame_of_an_animation_counts(suffix, picture, encode, preprocessing, limits):
    """Of several frames the first is the picture."""
    others = [Image.new("RGB", picture.size, colour) for colour in ("black", "white")]
    data = encode(picture, suffix, save_all=True, append_images=others, quality=95)
    assert_close(decode_bytes(data, preprocessing, limits).pixels, RED, BLUE, GREEN)


def test_large_jpegs_are_scaled_while_decoding(picture, encode, limits):
    """A JPEG far larger than the working size looks like its full decoding, resized."""
    large = picture.resize((1000, 1000), Image.Resampling.BICUBIC)
    data = encode(large, "JPEG", quality=95)
    fast = decode_bytes(data, Preprocessing(64), limits).pixels.astype(int)
    slow = decode_bytes(encode(large, "PNG"), Preprocessing(64), limits).pixels.astype(int)
    assert np.abs(fast - slow).mean() < 1.5


def test_bomb_by_header(preprocessing, limits):
    """20,000 by 20,000 pixels are refused before anything is decoded."""
    assert reason_of(png(20_000, 20_000), preprocessing, Limits()) == "too-many-pixels"


def test_bomb_by_content(preprocessing):
    """A small file that unpacks to 60 million pixels is refused, though Pillow alone would decode it."""
    data = png(10_000, 6_000, zlib.compress(bytes(10_001 * 6_000 // 8), 9), depth=1, colour=0)
    assert len(data) < 100_000
    assert reason_of(data, preprocessing, Limits()) == "too-many-pixels"


def test_bomb_by_tile(preprocessing, limits):
    """A tiny TIFF whose one tile would need a gigabyte is refused before libtiff makes room for it."""
    content = zlib.compress(bytes(100))
    tags = {256: 10, 257: 10, 258: 8, 259: 8, 262: 1, 277: 1, 322: 32768, 323: 32768, 324: 134, 325: len(content)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    data = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + content
    assert reason_of(data, preprocessing, limits) == "too-many-pixels"


@pytest.mark.parametrize("suffix", ["AVIF", "HEIF"])
def test_many_pixels_of_new_formats(suffix, encode, preprocessing):
    """The cap counts before anything is decoded."""
    data = encode(Image.new("RGB", (400, 300)), suffix)
    assert reason_of(data, preprocessing, Limits(max_pixels=400 * 300 - 1)) == "too-many-pixels"
    assert decode_bytes(data, preprocessing, Limits(max_pixels=400 * 300)).width == 400


def test_an_archive_is_told_what_unpacks_it(tmp_path, preprocessing):
    """Also one that is larger than any picture may be: nobody is told to make a smaller zip."""
    path = tmp_path / "photos.jpg"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("1.jpg", bytes(1000))
    for limits in (Limits(), Limits(max_file_bytes=100)):
        with pytest.raises(ImageRejected, match=r"a zip archive, .*`unzip FILE -d FOLDER`\) and drop the folder") as rejected:
            decode_file(path, preprocessing, limits)
        assert rejected.value.reason == "format"


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_pillows_own_limit_holds_above_ours(preprocessing):
    """However many pixels the setting allows, what Pillow warns about is refused."""
    generous = Limits(max_pixels=1_000_000_000)
    assert reason_of(png(10_000, 10_000, depth=1, colour=0), preprocessing, generous) == "too-many-pixels"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"hello, world", "not-an-image"),
        (b"\0" * 1000, "not-an-image"),
        (b"8BPS" + b"\0" * 100, "format"),
        (b"\0\0\0\x18ftypheic" + b"\0" * 100, "format"),
        (b"%PDF-1.7", "format"),
        (b"PK\3\4" + b"\0" * 100, "format"),
        (b"\0" * 257 + b"ustar" + b"\0" * 250, "format"),
        (b"\xff\xd8\xff\xe0", "damaged"),
        (b"\x89PNG\r\n\x1a\n", "damaged"),
        (b"x" * 2_000_001, "too-large"),
    ],
)
def test_what_is_no_picture_is_refused(data, reason, preprocessing, limits):
    """Each kind of wrong file has its own reason."""
    assert reason_of(data, preprocessing, limits) == reason


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("suffix", FORMATS)
def test_truncation_is_never_accepted_silently(suffix, encode, preprocessing, limits):
    """Cut anywhere within the picture's data, a file is refused, or nothing of its picture was missing."""
    noise = np.random.default_rng(1).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    data = encode(Image.fromarray(noise), suffix)
    whole = decode_bytes(data, preprocessing, limits).pixels
    refused = 0
    for end in range(1, len(data), max(1, len(data) // 150)):
        try:
            pixels = decode_bytes(data[:end], preprocessing, limits).pixels
        except ImageRejected:
            refused += 1
        else:
            assert (pixels == whole).all(), f"cut at {end} of {len(data)}"
    assert refused > 100


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=150)
@given(data=st.data(), suffix=st.sampled_from(FORMATS))
def test_flipped_bytes_are_decoded_or_refused(data, suffix):
    """Whatever is changed in a good file, the outcome is pixels or ImageRejected."""
    from io import BytesIO

    target = BytesIO()
    Image.linear_gradient("L").resize((24, 24)).save(target, suffix)
    content = bytearray(target.getvalue())
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[position] = data.draw(st.integers(0, 255))
    _decode_or_refuse(bytes(content))


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=300)
@given(
    st.sampled_from(
        [
            b"",
            b"\xff\xd8\xff",
            b"\x89PNG\r\n\x1a\n",
            b"GIF89a",
            b"BM",
            b"II*\0",
            b"RIFF",
            b"\0\0\0\x18ftypavif",
            b"\0\0\0\x18ftypheic",
        ]
    ),
    st.binary(),
)
def test_any_bytes_are_decoded_or_refused(start, rest):
    """Any byte string at all, with or without a promising start, gives pixels or ImageRejected."""
    _decode_or_refuse(start + rest)


def _decode_or_refuse(content):
    try:
        image = decode_bytes(content, Preprocessing(8), Limits(max_pixels=4_000_000))
    except ImageRejected as rejected:
        assert rejected.reason  # noqa: PT017 — both outcomes are fine
    else:
        assert image.pixels.shape == (3, 8, 8)
