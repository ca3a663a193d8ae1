"""`adaptd serve`, the process: a listening socket, the parts put together, and leaving in order."""

import asyncio
import errno
import gc
import importlib.util
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from adaptd.connections import BACKLOG, Server, make_server
from adaptd.errors import ConfigError, ServingError
from adaptd.library.preprocessing import Limits
from adaptd.machine import cpu_count, is_loopback
from adaptd.observe.serving_metrics import ServingMetrics
from adaptd.project.settings import ServingSettings
from adaptd.publishing.session import find_providers
from adaptd.serving.app import Application
from adaptd.serving.batching import Batcher
from adaptd.serving.catalogue import Catalogue
from adaptd.serving.decoding import Decoding
from adaptd.serving.endpoints import Endpoints
from adaptd.serving.http import BodyReader, Budget
from adaptd.serving.statistics import Run, Statistics

INSTALL_EXTRA = "pip install 'adaptd[grpc]'"
SWITCH_SECONDS = 0.0005
"""A finished run must not wait Python's usual 5 ms for its turn while requests are being read."""


def check_exposure(settings: ServingSettings, insecure: bool) -> None:  # noqa: FBT001 (it is an option of the command)
    """Refuse an address that others can reach, unless there is a token or somebody insists."""
    if settings.token or insecure or is_loopback(settings.host):
        return
    raise ConfigError(
        f"{settings.host} can be reached by others: set a token with --token or ADAPTD_SERVING__TOKEN, or insist with --insecure"
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that clients can connect to."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as problem:
        remedy = (
            "stop what listens there, or choose another --port"
            if problem.errno == errno.EADDRINUSE
            else "check --host and --port"
        )
        raise ServingError(f"cannot listen on {host} port {port}: {problem.strerror}; {remedy}") from problem
    return listener


def describe_address(listener: socket.socket) -> str:
    """Where clients find it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


def run_server(settings: ServingSettings, folder: Path, limits: Limits, announce: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or SIGINT; then accept no more, finish those begun, and return.

    Args:
        settings: of `[serving]`.
        folder: `models/<name>`, where versions appear.
        limits: what an image may cost.
        announce: told once where the server listens and what it serves.
    """
    find_providers(settings.device)
    listener = listen(settings.host, settings.port)
    metrics = ServingMetrics()
    catalogue = Catalogue(
        folder,
        cpu_count(),
        lambda model: metrics.swapped(model.name, model.version),
        lambda _: metrics.refused(),
        settings.device,
    )
    catalogue.refresh()
    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.run(_serve(settings, catalogue, metrics, limits, listener, announce))


async def _serve(
    settings: ServingSettings,
    catalogue: Catalogue,
    metrics: ServingMetrics,
    limits: Limits,
    listener: socket.socket,
    announce: Callable[[str], None],
) -> None:
    statistics = Statistics()

    def observe(run: Run) -> None:
        statistics.add(run)
        metrics.ran(run.images)

    batcher = Batcher(settings.max_batch_size, settings.max_queue, observe)
    metrics.watch_queue(lambda: batcher.depth)
    decoding = Decoding(limits, settings.max_request_pixels, settings.max_decode_seconds)
    endpoints, budget = Endpoints(catalogue, batcher, metrics, statistics, decoding), Budget(settings.max_held_bytes)
    bodies = BodyReader(settings.max_request_bytes)
    application = Application(endpoints, metrics, bodies, budget, settings.request_seconds, settings.token)
    watcher = asyncio.create_task(catalogue.watch(settings.poll_seconds))
    try:
        server = _make_server(application, settings)
        if settings.grpc_port:
            server.beside.append(await _start_grpc(settings, endpoints, metrics, budget))
        announce(f"listening on {describe_address(listener)}, {_describe(settings, catalogue)}")
        await server.serve(sockets=[listener])
    finally:
        watcher.cancel()
        for part in (catalogue, batcher, endpoints):
            part.close()


def _describe(settings: ServingSettings, catalogue: Catalogue) -> str:
    model = catalogue.current
    beside = f"; gRPC on port {settings.grpc_port}" if settings.grpc_port else ""
    if model is None:
        return f"serving nothing yet: waiting for a first version in {catalogue.folder}{beside}"
    return f"serving version {model.version} of {model.name}{beside}"


def _make_server(application: Application, settings: ServingSettings) -> Server:
    server = make_server(
        application,
        settings.max_connections,
        timeout_graceful_shutdown=int(settings.request_seconds) + 30,
    )
    # uvicorn gives a signal back to its earlier handler when it is done; that one must not end the process with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    # What lives from here on is short-lived; collecting it must not walk through everything that was imported.
    gc.freeze()
    return server


async def _start_grpc(
    settings: ServingSettings, endpoints: Endpoints, metrics: ServingMetrics, budget: Budget
) -> Callable[[], Awaitable[None]]:
    """Answer over gRPC too; how to leave."""
    from adaptd.serving.rpc import RpcServer  # noqa: PLC0415 (packages of the extra)

    server = RpcServer(settings, endpoints, metrics, budget)
    await server.start()
    return server.stop


def check_grpc(settings: ServingSettings) -> None:
    """Refuse a port for gRPC where its packages are not installed."""
    missing = [name for name in ("grpc", "google.protobuf") if settings.grpc_port and not _is_installed(name)]
    if missing:
        raise ConfigError(f"serving.grpc_port needs the packages of the extra grpc: {INSTALL_EXTRA}, or set it to 0")


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
