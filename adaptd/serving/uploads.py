"""Files in a request's body: the body itself, the parts of a form (`curl -F image=@x.jpg`), or base64 in JSON.

The body is whole and bounded when it comes here, so a form is a matter of splitting; no streaming parser is needed.
"""

import binascii
import json
import re
from dataclasses import dataclass
from typing import Any

from adaptd.errors import ImageRejected, RequestRefused
from adaptd.records import Reason

MAX_FILES = 256
MAX_NAME = 255
"""Characters of a file's name that are given back."""
PIECE = 1 << 18
"""Characters of base64 decoded at once, so that others get their turn in between; a multiple of four."""
MAX_HEADERS = 4096
"""Bytes of a part's headers that are looked at."""
MAX_BESIDE = 1 << 16
"""Bytes of JSON beside the images."""
LONG = 100
"""A string of more characters is an image, which JSON's parser never sees."""

_BOUNDARY = re.compile(rb'multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_FILE_NAME = re.compile(
    rb'^content-disposition:[^\r\n]*?;[ \t]*filename=(?:"((?:[^"\\\r\n]|\\.)*)"|([^\s;"]+))', re.IGNORECASE | re.MULTILINE
)
_ESCAPED = re.compile(rb'\\(["\\])|%(22|0D|0A)', re.IGNORECASE)
"""What is written for a quote or the end of a line in a file's name: by curl, and by browsers."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One file, with the name that its client gave it; or why there is none."""

    content: bytes | ImageRejected
    name: str | None = None


def has_many(content_type: bytes) -> bool:
    """Whether the body may hold several files."""
    return content_type.lower().startswith((b"multipart/", b"application/json"))


def read_uploads(body: bytes, content_type: bytes) -> list[Upload]:
    """The files of a request; RequestRefused where there are none."""
    kind = content_type.lower()
    if kind.startswith(b"application/json"):
        files = _read_json(body)
    else:
        files = _split_form(body, content_type) if kind.startswith(b"multipart/") else [Upload(body)]
    if not any(upload.content for upload in files):
        raise RequestRefused(400, "no image: send a file as the body, files as the parts of a form, or base64 in JSON")
    return files


def _split_form(body: bytes, content_type: bytes) -> list[Upload]:
    """Each part, whatever its field is called."""
    found = _BOUNDARY.match(content_type)
    if found is None:
        raise RequestRefused(400, "the form's Content-Type is not multipart/form-data with a boundary")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + (found[1] or found[2]), MAX_FILES + 2)
    if len(parts) > MAX_FILES + 1:
        raise _too_many()
    if not parts or not parts[-1].startswith(b"--"):
        raise RequestRefused(400, "the form ends before its last boundary")
    files = []
    for part in parts[:-1]:
        headers, blank, content = part.partition(b"\r\n\r\n")
        if not blank:
            raise RequestRefused(400, "a part of the form has no blank line after its headers")
        files.append(Upload(content, _find_name(headers)))
    return files


def _too_many() -> RequestRefused:
    return RequestRefused(413, f"more than {MAX_FILES} images, which is how many fit into a request: send several")


def _find_name(headers: bytes) -> str | None:
    """The file's name as its client knows it; no path is ever made of it."""
    found = _FILE_NAME.search(headers[:MAX_HEADERS])
    if found is None:
        return None
    plain = _ESCAPED.sub(lambda escape: escape[1] or binascii.unhexlify(escape[2]), found[1] or found[2] or b"")
    return plain.decode(errors="replace")[:MAX_NAME]


def _read_json(body: bytes) -> list[Upload]:
    """`{"images": ["base64", …]}`: the images are cut out first, so that JSON's parser has little to do."""
    images: list[bytes] = []
    pieces = body.split(b'"', 2 * MAX_FILES + 64)
    for place in range(1, len(pieces), 2):
        if len(pieces[place]) > LONG:
            images.append(pieces[place])
            pieces[place] = b"#%d" % (len(images) - 1)
    if len(images) > MAX_FILES:
        raise _too_many()
    if sum(map(len, pieces)) > MAX_BESIDE:
        raise RequestRefused(413, f"more than {MAX_FILES} images, or {MAX_BESIDE} bytes of JSON beside them: send less at once")
    try:
        listed = json.loads(b'"'.join(pieces))["images"]
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise RequestRefused(400, 'the JSON must be {"images": ["…", …]}, each a file in base64') from problem
    if not isinstance(listed, list):
        raise RequestRefused(400, '"images" must be a list of files in base64')
    if len(listed) > MAX_FILES:
        raise _too_many()
    marks = {f"#{place}": image for place, image in enumerate(images)}
    return [Upload(_decode_base64(marks.get(entry, entry) if isinstance(entry, str) else entry)) for entry in listed]


def _decode_base64(text: Any) -> bytes | ImageRejected:
    """A file's bytes, piece by piece; `data:image/png;base64,` may stand before it."""
    if isinstance(text, str):
        text = text.encode(errors="replace")
    if not isinstance(text, bytes):
        return ImageRejected(Reason.NOT_AN_IMAGE, "an image in JSON is a string of base64")
    if text.startswith(b"data:"):
        text = text.partition(b",")[2]
    if b"\\" in text:
        text = text.replace(b"\\/", b"/").replace(b"\\r", b"").replace(b"\\n", b"")
    content = bytearray()
    try:
        for start in range(0, len(text), PIECE):
            content += binascii.a2b_base64(text[start : start + PIECE], strict_mode=True)
    except binascii.Error:
        return ImageRejected(Reason.NOT_AN_IMAGE, "it is not valid base64")
    return bytes(content)
