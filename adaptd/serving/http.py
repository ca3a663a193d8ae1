"""The HTTP edge below routing: reading a bounded body, unpacking it, answers as ASGI messages. Knows no models."""

import binascii
import hmac
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Send

from adaptd.errors import ClientLeft, RequestRefused

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
BINARY: Header = (b"content-type", b"application/octet-stream")

MAX_MESSAGE = 500
CLIENT_LEFT = 499
"""The status that is counted, since nobody is left to be sent one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = (JSON,)

    async def send(self, send: Send) -> None:
        """Hand it to the server."""
        headers = [*self.headers, (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_answer(document: Any, status: int = 200) -> Answer:
    """A JSON document."""
    return Answer(status, json.dumps(document, ensure_ascii=False).encode())


def error_answer(status: int, message: str, *headers: Header) -> Answer:
    """`{"error": …}`, with what a client needs to go on."""
    again = ((b"retry-after", b"1"),) if status == 503 else ()
    return Answer(status, json.dumps({"error": message[:MAX_MESSAGE]}).encode(), (JSON, *again, *headers))


def is_token(authorization: bytes, token: bytes, *, as_password: bool = False) -> bool:
    """Whether a header's value gives the token, compared in a time that tells nothing."""
    scheme, _, given = authorization.partition(b" ")
    if as_password and scheme.lower() == b"basic":
        try:
            given = binascii.a2b_base64(given).partition(b":")[2]
        except binascii.Error:
            return False
    elif scheme.lower() != b"bearer":
        return False
    return hmac.compare_digest(given.strip(), token)


def find_header(headers: Iterable[Header], name: bytes) -> bytes | None:
    """A header's value; names come in lower case."""
    for key, value in headers:
        if key == name:
            return value
    return None


SMALL_BYTES = 1 << 20
SMALL_SHARE = 8
"""One part in so many of the memory for requests is for those that are small."""


class Budget:
    """Bytes of all requests in memory together."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = 0

    def take(self, size: int, own: int, expected: int) -> None:
        """For a request that has its `own` bytes already, of those `expected`; one that is alone may have as many as it needs."""
        reserved = 0 if max(own + size, expected) <= SMALL_BYTES else self._max_bytes // SMALL_SHARE
        if self._held + size > self._max_bytes - reserved and self._held > own:
            raise RequestRefused(503, "too many large requests are in memory; try again later")
        self._held += size

    def give_back(self, size: int) -> None:
        """A request was answered."""
        self._held -= size


class Held:
    """The bytes of one request, until it is answered."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0
        self.expected = 0

    def add(self, size: int) -> None:
        """More of it came; RequestRefused where there is no room."""
        self._budget.take(size, self._size, self.expected)
        self._size += size

    def close(self) -> None:
        """Nobody needs it any more."""
        self._budget.give_back(self._size)
        self._size = 0


class BodyReader:
    """Reads bodies up to `max_bytes` each."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes

    async def read(self, headers: Iterable[Header], receive: Receive, held: Held) -> bytes:
        """The whole body, as sent; what is read is held."""
        announced = find_header(headers, b"content-length")
        if announced is not None and (len(announced) > 18 or int(announced) > self.max_bytes):
            raise self._too_large()
        held.expected = self.max_bytes if announced is None else int(announced)
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft("the client left before its request was whole")
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > self.max_bytes:
                raise self._too_large()
            held.add(len(chunk))
            chunks.append(chunk)
            if not message.get("more_body"):
                return chunk if len(chunks) == 1 else b"".join(chunks)

    def _too_large(self) -> RequestRefused:
        return RequestRefused(413, f"the request is larger than {self.max_bytes} bytes")

    def unpack(self, body: bytes, encoding: bytes) -> bytes:
        """A compressed body's content, as long as that is within the limit too."""
        if encoding not in {b"gzip", b"deflate"}:
            raise RequestRefused(415, "Content-Encoding must be gzip or deflate")
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        try:
            content = stream.decompress(body, self.max_bytes + 1)
        except zlib.error as problem:
            raise RequestRefused(400, f"the body is not valid {encoding.decode()}") from problem
        if len(content) > self.max_bytes:
            raise self._too_large()
        if not stream.eof or stream.unused_data:
            raise RequestRefused(400, f"the body is not valid {encoding.decode()}: it ends too early or too late")
        return content
