"""The HTTP edge below routing: reading a bounded body, unpacking it, answers as ASGI messages. Knows no models."""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.types import Message, Receive, Send

from adaptd.errors import ClientLeft, RequestRefused

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
BINARY: Header = (b"content-type", b"application/octet-stream")

MAX_MESSAGE = 500
HELD_REQUESTS = 4
"""Bodies of the largest size that may be in memory together."""


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


def error_answer(status: int, message: str) -> Answer:
    """`{"error": …}`, with what a client needs to go on."""
    extra: dict[int, tuple[Header, ...]] = {503: ((b"retry-after", b"1"),), 401: ((b"www-authenticate", b"Bearer"),)}
    return Answer(status, json.dumps({"error": message[:MAX_MESSAGE]}).encode(), (JSON, *extra.get(status, ())))


def find_header(headers: Iterable[Header], name: bytes) -> bytes | None:
    """A header's value; names come in lower case."""
    for key, value in headers:
        if key == name:
            return value
    return None


class BodyReader:
    """Reads bodies up to `max_bytes` each, and refuses more when too many bytes of them are held at a time."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._held = 0

    async def read(self, headers: Iterable[Header], receive: Receive) -> bytes:
        """The whole body, as sent."""
        announced = find_header(headers, b"content-length")
        if announced is not None and (len(announced) > 18 or int(announced) > self.max_bytes):
            raise self._too_large()
        message = await receive()
        if not message.get("more_body") and message["type"] == "http.request":
            body: bytes = message["body"]
            if len(body) > self.max_bytes:
                raise self._too_large()
            return body
        return await self._read_on(message, receive)

    async def _read_on(self, message: Message, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size = 0
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise ClientLeft("the client left before its request was whole")
                chunk: bytes = message.get("body", b"")
                chunks.append(chunk)
                size += len(chunk)
                self._held += len(chunk)
                if size > self.max_bytes:
                    raise self._too_large()
                if self._held > HELD_REQUESTS * self.max_bytes:
                    raise RequestRefused(503, "too many large requests are being read; try again later")
                if not message.get("more_body"):
                    return b"".join(chunks)
                message = await receive()
        finally:
            self._held -= size

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
