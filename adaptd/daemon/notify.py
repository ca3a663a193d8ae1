"""Telling systemd that the daemon is ready, alive and what it does: one datagram each, nothing where nobody listens."""

import contextlib
import os
import socket


def notify(message: str) -> None:
    """Send a state such as READY=1 or WATCHDOG=1 to the service manager; that it does not listen is no reason to stop."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.setblocking(False)
        channel.sendto(message.encode(), address.replace("@", "\0", 1))
