"""A cheap HTTP load: N keep-alive clients in one process, each sends its request again as soon as it is answered.

One epoll loop over plain sockets and ready-made bytes, because every microsecond spent here is taken from the server on
the same cores. Run as a process: `python -m benchmarks.http_load ORDER.json` prints one JSON line.
"""

import json
import re
import select
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass(slots=True)
class Client:
    """One connection, and what of the answer has come so far."""

    connection: socket.socket
    sent_at: float = 0.0
    received: bytearray = field(default_factory=bytearray)
    awaited: int = 0

    def ask(self, request: bytes) -> None:
        """Send the request once more."""
        self.received.clear()
        self.awaited = 0
        self.sent_at = time.perf_counter()
        self.connection.sendall(request)

    def listen(self) -> bool:
        """Take what came; whether the answer is whole."""
        data = self.connection.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.received += data
        if not self.awaited:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return False
            if not self.received.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(self.received[:300].decode("latin-1"))
            found = _LENGTH.search(self.received, 0, end)
            assert found, "no content-length"
            self.awaited = end + 4 + int(found[1])
        return len(self.received) >= self.awaited


def connect(host: str, port: int) -> Client:
    """A client."""
    connection = socket.create_connection((host, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Client(connection)


def load(
    address: tuple[str, int], request: bytes, clients: int, warm_seconds: float, seconds: float
) -> tuple[list[float], float]:
    """Seconds that each answer took, and how long all of it was: until the last, and until there are as many as clients."""
    epoll = select.epoll()
    by_file = {client.connection.fileno(): client for client in (connect(*address) for _ in range(clients))}
    for file, client in by_file.items():
        epoll.register(file, select.EPOLLIN)
        client.ask(request)
    times: list[float] = []
    begin = time.perf_counter() + warm_seconds
    end = begin + seconds
    now = 0.0
    while now < end or len(times) < clients:
        for file, _ in epoll.poll(10):
            client = by_file[file]
            if client.listen():
                now = time.perf_counter()
                if now >= begin:
                    times.append(now - client.sent_at)
                client.ask(request)
    for client in by_file.values():
        client.connection.close()
    return times, now - begin


def main() -> None:
    """Do what the order file says."""
    order = json.loads(Path(sys.argv[1]).read_text())
    request = Path(order["request"]).read_bytes()
    times, spent = load(("127.0.0.1", order["port"]), request, order["clients"], order["warm_seconds"], order["seconds"])
    times.sort()
    quantiles = {f"p{q}": times[min(len(times) - 1, len(times) * q // 100)] for q in (50, 99)}
    print(
        json.dumps({"requests_per_second": len(times) / spent, "seconds": spent, "cpu_seconds": time.process_time(), **quantiles})
    )


if __name__ == "__main__":
    main()
