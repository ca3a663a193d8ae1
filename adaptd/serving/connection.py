"""One HTTP connection: uvicorn's, with what it lacks. Bodies are read in `http`.

That is a limit on the time and size of headers, errors as JSON, and a response written in one piece, not two.
"""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEADER_SECONDS = 10.0
MAX_HEADER_BYTES = 65_536


class _Joined:
    """A transport that keeps a response's head back until its body comes: one system call for both."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            self._head, data = b"", self._head + data
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100"):
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        if self._head:
            self.write(b"")

    def close(self) -> None:
        self.flush()
        self._transport.close()


class Connection(HttpToolsProtocol):
    """A connection that is closed when a request's headers take too long or too much."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_bytes = 0
        self._in_headers = True
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client that says nothing has as long as one that says too little."""
        self._joined = _Joined(transport)
        super().connection_made(self._joined)  # type: ignore[arg-type]  # it has all of a transport's methods
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline with the client."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the end of the headers."""
        super().data_received(data)
        if self._in_headers and self._deadline is not None:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self._refuse(431, f"the request's headers are larger than {MAX_HEADER_BYTES} bytes")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.scope["state"]["gone"] = self.transport.is_closing
        self._in_headers = True
        self._header_bytes = 0
        if self._deadline is None:
            self._arm()

    def on_headers_complete(self) -> None:
        """From here on the application counts."""
        self._in_headers = False
        self._disarm()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """A response without a body is only a head."""
        self._joined.flush()
        super().on_response_complete()

    def _arm(self) -> None:
        message = f"the request's headers did not arrive within {HEADER_SECONDS:g} seconds"
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._refuse, 408, message)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP."""
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        """Answer and close, unless an answer to an earlier request is still on its way."""
        self._disarm()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            body = json.dumps({"error": message}).encode()
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
