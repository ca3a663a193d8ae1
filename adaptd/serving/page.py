"""The page at `/`: a form to try the model with, and its answers as bars. Works without scripts; loads nothing from elsewhere.

Which files a request has, and what the model says to them, is found in `endpoints`.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from adaptd import __version__
from adaptd.errors import ImageRejected
from adaptd.serving.decoding import Decoded
from adaptd.serving.http import Answer, Header
from adaptd.serving.session import Images, Model
from adaptd.text import escape_hidden

SHOWN = 24
"""Pictures on a page; a form may have more."""
SITE = Path(__file__).parent / "site"
FILES = {"/page.css": b"text/css; charset=utf-8", "/page.js": b"text/javascript; charset=utf-8"}

POLICY = (
    b"default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; form-action 'self'; "
    b"base-uri 'none'; frame-ancestors 'none'"
)
SAFE: tuple[Header, ...] = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
PAGE_HEADERS: tuple[Header, ...] = ((b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store"), *SAFE)


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture of a form: as the model sees it, with what it says; or with the reason why it sees nothing."""

    name: str
    source: str | None
    top: Sequence[dict[str, Any]]
    error: str | None


def show_pictures(files: Sequence[Decoded], rows: Sequence[dict[str, Any]]) -> list[Picture]:
    """The pictures for a page, as many as it shows."""
    found = []
    for number, (file, row) in enumerate(zip(files[:SHOWN], rows, strict=False), 1):
        source = None if isinstance(file.image, ImageRejected) else _to_address(file.image)
        found.append(Picture(escape_hidden(file.name or f"picture {number}"), source, row.get("top", ()), row.get("error")))
    return found


def _to_address(pixels: Images) -> str:
    """An address that is the picture itself."""
    png = BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0)).save(png, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(SITE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def render_page(name: str, model: Model | None, pictures: Sequence[Picture], left_out: int, problem: str | None) -> bytes:
    """The whole page."""
    values = {"name": name, "model": model, "pictures": pictures, "left_out": left_out, "problem": problem}
    return _environment().get_template("page.html").render(values | {"adaptd_version": __version__}).encode()


@cache
def page_file(path: str) -> Answer:
    """A file that the page uses."""
    kind = FILES[path]
    return Answer(200, (SITE / path.removeprefix("/")).read_bytes(), ((b"content-type", kind), *SAFE))
