"""The daemon's HTTP port: metrics, health and, where there is a site, its pages. The supervisor's loop runs beside it."""

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from adaptd.observe.dashboard.access import Guard
from adaptd.observe.dashboard.app import Dashboard
from adaptd.observe.dashboard.site import Site
from adaptd.observe.metrics import DaemonCollector, make_registry


def make_app(site: Site, health: Callable[[], Mapping[str, Any]]) -> Starlette:
    """Everything that is answered at the daemon's port."""
    collector = DaemonCollector(site.store, site.project.state, site.model, health, site.matrices)
    registry, dashboard = make_registry(collector), Dashboard(site)

    def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    def show_health(_: Request) -> Response:
        said = dict(health())
        return JSONResponse(said, 503 if said.get("state") == "degraded" else 200)

    async def fail(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        return dashboard.fail(problem)

    app = Starlette(
        routes=[Route("/metrics", metrics), Route("/health", show_health), *dashboard.routes()],
        exception_handlers={HTTPException: fail},
    )
    app.add_middleware(Guard, settings=site.project.settings.metrics)
    app.state.closing = dashboard.pulse.closing
    return app


class HttpThread:
    """Serves an app beside the supervisor's loop."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Bound here, so that a port in use is an error of the start and not a line in a thread's log.
        self._socket = socket.create_server((host, port), family=family)
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self._socket.getsockname()[1]}"
        self._closing: threading.Event = app.state.closing
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none", server_header=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being answered; streams, which would never end, are told to."""
        self._closing.set()
        self._server.should_exit = True
        self._thread.join(2)
        self._socket.close()
