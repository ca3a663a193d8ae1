"""HTTP connections, for the daemon's pages and for serving alike: uvicorn's, with what it lacks. Knows no address and no answer.

That is a limit on the number of connections, on the time and size of headers, errors as JSON, one line in the log where a
crowd would write thousands, and a response written in one piece, not two.
"""

import asyncio
import itertools
import json
import logging
import resource
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEADER_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 75
"""How long a client may take until its next request, and for reading what was written to it."""
MAX_HEADER_BYTES = 65_536
BACKLOG = 2048
"""Connections that the kernel keeps until they are accepted."""
ACCEPTED_AT_ONCE = 16
"""Accepted in one go before anything else is done: so many descriptors may be open beyond the limit."""
QUIET_SECONDS = 60.0
"""The same trouble is not logged again within this time."""

log = logging.getLogger(__name__)


def connections_allowed(wanted: int) -> int:
    """As many as wanted, but at most half of the descriptors that this process may open: the others are for its work."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft // 2 - ACCEPTED_AT_ONCE))


class _Complaint:
    """A line in the log, now and then."""

    def __init__(self) -> None:
        self._again_at = 0.0

    def write(self, message: str, *values: object) -> None:
        """Unless it was written lately."""
        if time.monotonic() >= self._again_at:
            self._again_at = time.monotonic() + QUIET_SECONDS
            log.warning(message, *values)


class Crowd:
    """The open connections of one server. Where there are too many, the one that has asked nothing for longest goes.

    Where all of them ask, it is the oldest whose client makes us wait: for the rest of a request, or for reading an answer.
    So there is always room for whoever asks how the server is, unless it works for everybody else.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[Connection, None] = {}  # oldest first
        self._idle: dict[Connection, None] = {}  # longest first
        self._complaint = _Complaint()

    def add(self, connection: "Connection") -> None:
        """A client connects."""
        if len(self._open) >= self._limit:
            self._complaint.write("more than %d connections: those that ask nothing are closed", self._limit)
            leaving = self._choose(connection)
            self.remove(leaving)
            leaving.send_away()
            if leaving is connection:
                return
        self._open[connection] = None
        self._idle[connection] = None

    def _choose(self, newcomer: "Connection") -> "Connection":
        silent = (each for each in self._idle if not each.is_being_read)
        slow = (each for each in self._open if each.is_waited_for)
        return next(itertools.chain(silent, slow), newcomer)

    def remove(self, connection: "Connection") -> None:
        """A client is gone."""
        self._open.pop(connection, None)
        self._idle.pop(connection, None)

    def note_request(self, connection: "Connection") -> None:
        """A client asks."""
        self._idle.pop(connection, None)

    def note_answer(self, connection: "Connection") -> None:
        """A client was answered, and may ask again."""
        if connection in self._open:
            self._idle[connection] = None


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

    def __init__(self, *arguments: Any, crowd: Crowd, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._crowd = crowd
        self._header_bytes = 0
        self._in_headers = True
        self._has_asked = False
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    @property
    def is_being_read(self) -> bool:
        """Whether a part of an answer waits for its client to read it."""
        return self.transport.get_write_buffer_size() > 0

    @property
    def is_waited_for(self) -> bool:
        """Whether it is the client's turn: to read, or to say the rest of what it asks."""
        return self.is_being_read or self.cycle is None or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client that says nothing has as long as one that says too little."""
        self._joined = _Joined(transport)
        super().connection_made(self._joined)  # type: ignore[arg-type]  # it has all of a transport's methods
        self._arm()
        self._crowd.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadlines with the client."""
        self._disarm()
        self._forget_unread()
        self._crowd.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the end of the headers."""
        super().data_received(data)
        if self._in_headers and self._deadline is not None:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self.refuse(431, f"the request's headers are larger than {MAX_HEADER_BYTES} bytes")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        if not self.is_being_read:
            self._forget_unread()
        self.scope["state"]["gone"] = self.transport.is_closing
        self._in_headers = True
        self._header_bytes = 0
        if self._deadline is None:
            self._arm()

    def on_headers_complete(self) -> None:
        """From here on the application counts."""
        self._in_headers, self._has_asked = False, True
        self._disarm()
        self._crowd.note_request(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """A response without a body is only a head."""
        self._joined.flush()
        super().on_response_complete()
        if self.cycle.response_complete:
            self._crowd.note_answer(self)
        if self.is_being_read:
            self._note_unread()

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        super().pause_writing()
        self._note_unread()

    def resume_writing(self) -> None:
        """It has read nearly everything."""
        super().resume_writing()
        self._forget_unread()

    def _note_unread(self) -> None:
        """Whoever does not read does not keep its answer in our memory for ever, nor its place."""
        if self._unread is None:
            self._unread = self.loop.call_later(KEEP_ALIVE_SECONDS, self._end_unread)

    def _end_unread(self) -> None:
        self._unread = None
        if self.is_being_read:
            self.transport.abort()

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _arm(self) -> None:
        message = f"the request's headers did not arrive within {HEADER_SECONDS:g} seconds"
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.refuse, 408, message)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP."""
        self.refuse(400, msg)

    def send_away(self) -> None:
        """Others need the place; a client that has asked nothing yet is told so."""
        if self.is_being_read:
            self.transport.abort()
        elif self._has_asked:
            self.transport.close()
        else:
            self.refuse(503, "too many connections; try again later")

    def refuse(self, status: int, message: str) -> None:
        """Answer and close, unless an answer to an earlier request is still on its way."""
        self._disarm()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            body = json.dumps({"error": message}).encode()
            again = b"retry-after: 1\r\n" if status == 503 else b""
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n%s\r\n" % (len(body), again)
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


class Server(uvicorn.Server):
    """A server whose trouble with accepting is one line in the log."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._complaint = _Complaint()
        self.beside: list[Callable[[], Awaitable[None]]] = []
        """What else has to leave when this does."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Together with what is beside it."""
        await asyncio.gather(super().shutdown(sockets), *(leave() for leave in self.beside))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept a few at a time; let the kernel keep many."""
        asyncio.get_running_loop().set_exception_handler(self._note)
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What went wrong outside of any request."""
        problem = context.get("exception")
        if isinstance(problem, OSError):
            self._complaint.write("connections are in trouble: %s", problem)
        else:
            log.error("%s", context["message"], exc_info=problem)


def make_server(app: Any, max_connections: int, **options: Any) -> Server:
    """A server for an application; `options` are uvicorn's."""
    return Server(
        uvicorn.Config(
            app,
            http=partial(Connection, crowd=Crowd(connections_allowed(max_connections))),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=ACCEPTED_AT_ONCE,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            **options,
        )
    )
