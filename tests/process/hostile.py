"""Five hundred files that nobody should drop into an inbox, made from a seed. `python hostile.py DIR` writes them."""

import contextlib
import io
import os
import random
import stat
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

FILES = 500
BIG = 64_000_001
"""One byte more than intake.max_file_bytes."""


def picture(chance: random.Random, kind: str = "PNG") -> bytes:
    """A small picture that can be read."""
    noise = np.random.default_rng(chance.getrandbits(32)).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, kind)
    return buffer.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A piece of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(side: int) -> bytes:
    """A small PNG that says it is huge, and would be."""
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 1_000_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def cut(chance: random.Random) -> bytes:
    """A picture without its end."""
    whole = picture(chance, chance.choice(["PNG", "JPEG", "WEBP", "BMP"]))
    return whole[: chance.randrange(1, len(whole) - 1)]


def flipped(chance: random.Random) -> bytes:
    """A picture with some bytes changed."""
    content = bytearray(picture(chance, chance.choice(["PNG", "JPEG", "WEBP", "BMP"])))
    for _ in range(chance.randrange(1, 20)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


CONTENTS: tuple[Callable[[random.Random], bytes], ...] = (
    cut,
    flipped,
    lambda _: b"",
    lambda chance: bomb(chance.choice([8_000, 65_000, 2**31 - 1])),
    lambda chance: chance.randbytes(chance.randrange(1, 5000)),
    lambda chance: b"\xff\xd8\xff\xe0" + chance.randbytes(200),
    lambda _: b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    lambda _: b"%PDF-1.4\n%%EOF",
    lambda chance: picture(chance, "TIFF"),
    lambda chance: b"GIF89a" + struct.pack("<HH", 65535, 65535) + chance.randbytes(50),
    picture,
)

NAMES: tuple[bytes, ...] = (
    b"new\nline-%d.png",
    b"not-utf8-\xff\xfe-%d.png",
    b"x" * 247 + b"-%03d.png",
    b"-rf-%d.png",
    "\u202egnp.%d".encode() + b".png",
    b"<img src=x onerror=alert(1)>%d.png",
    b"quote'\"`$(reboot)%d.png",
    b"back\\slash\\x%d.png",
    b" space %d .png",
    b"no-suffix-%d",
    b"wrong-%d.txt",
    b"plain-%d.jpg",
    "größe-日本-%d.png".encode(),
)


def special(folder: Path) -> Iterator[Path]:
    """What is no ordinary file: FIFO, links, loops, a socket's name, a device where root makes it, deep folders, a huge hole."""
    os.mkfifo(folder / "fifo.png")
    yield folder / "fifo.png"
    for name, target in (("link.png", "/etc/passwd"), ("dangling.png", "nowhere"), ("loop", "."), ("self.png", "self.png")):
        (folder / name).symlink_to(target)
        yield folder / name
    with contextlib.suppress(PermissionError):
        os.mknod(folder / "device.png", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        yield folder / "device.png"
    with (folder / "huge.png").open("wb") as file:
        file.truncate(BIG)
    yield folder / "huge.png"
    (folder / "unreadable.png").write_bytes(b"secret")
    (folder / "unreadable.png").chmod(0)
    yield folder / "unreadable.png"
    deep = folder.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "deep.png").write_bytes(b"deep")
    yield deep / "deep.png"
    (folder / "_test" / "a").mkdir(parents=True)
    (folder / "_test" / "unknown").mkdir()
    for name in ("stray.png", "unknown/one.png"):
        (folder / "_test" / name).write_bytes(b"test")
        yield folder / "_test" / name


def make_corpus(folder: Path, seed: int = 1) -> int:
    """Write the files; how many there are."""
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    count = len(list(special(folder)))
    while count < FILES:
        content = chance.choice(CONTENTS)(chance)
        name = os.fsdecode(NAMES[count % len(NAMES)].replace(b"%03d", b"%d").replace(b"%d", b"%03d" % count))
        inside = folder / f"sub {count % 7}" if count % 3 else folder
        inside.mkdir(exist_ok=True)
        (inside / name).write_bytes(content)
        count += 1
    return count


if __name__ == "__main__":
    make_corpus(Path(sys.argv[1]))
