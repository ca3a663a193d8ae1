"""The daemon's HTTP port: metrics and health. Reads only."""

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from adaptd.observe.metrics import DaemonCollector, make_registry


def make_app(collector: DaemonCollector, health: Callable[[], Mapping[str, Any]]) -> Starlette:
    """The pages."""
    registry = make_registry(collector)

    def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    def show_health(_: Request) -> Response:
        said = dict(health())
        return JSONResponse(said, 503 if said.get("state") == "degraded" else 200)

    return Starlette(routes=[Route("/metrics", metrics), Route("/health", show_health)])


class HttpThread:
    """Serves an app beside the supervisor's loop."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Bound here, so that a port in use is an error of the start and not a line in a thread's log.
        self._socket = socket.create_server((host, port), family=family)
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being answered."""
        self._server.should_exit = True
        self._thread.join(2)
        self._socket.close()
