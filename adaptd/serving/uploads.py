"""Files in a request's body: the body itself, or the parts of a form (`curl -F image=@x.jpg`).

The body is whole and bounded when it comes here, so a form is a matter of splitting; no streaming parser is needed.
"""

import re

from adaptd.errors import RequestRefused

MAX_FILES = 256

_BOUNDARY = re.compile(rb'multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)


def is_form(content_type: bytes) -> bool:
    """Whether the body has parts."""
    return content_type.lower().startswith(b"multipart/")


def read_uploads(body: bytes, content_type: bytes) -> list[bytes]:
    """The files of a request; RequestRefused where there are none."""
    files = _split_form(body, content_type) if is_form(content_type) else [body]
    if not any(files):
        raise RequestRefused(400, "no image: send a file as the body, or files as the parts of a form")
    return files


def _split_form(body: bytes, content_type: bytes) -> list[bytes]:
    """The content of each part, whatever its name is."""
    found = _BOUNDARY.match(content_type)
    if found is None:
        raise RequestRefused(400, "the form's Content-Type is not multipart/form-data with a boundary")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + (found[1] or found[2]), MAX_FILES + 2)
    if len(parts) > MAX_FILES + 1:
        raise RequestRefused(413, f"more than {MAX_FILES} images, which is how many fit into a request: send several")
    if not parts or not parts[-1].startswith(b"--"):
        raise RequestRefused(400, "the form ends before its last boundary")
    files = []
    for part in parts[:-1]:
        _, blank, content = part.partition(b"\r\n\r\n")
        if not blank:
            raise RequestRefused(400, "a part of the form has no blank line after its headers")
        files.append(content)
    return files
