"""The daemon's HTTP port: metrics, health and, where there is a site, its pages. The supervisor's loop runs beside it."""

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptd.connections import make_server
from adaptd.errors import AdaptdError
from adaptd.observe.dashboard.access import Guard, may_read
from adaptd.observe.dashboard.app import Dashboard
from adaptd.observe.dashboard.site import Site
from adaptd.observe.metrics import DaemonCollector, make_registry

MAX_TOLD = 200
"""As much of an address as is logged."""

log = logging.getLogger(__name__)


class Careful:
    """Whatever goes wrong in a page: one line in the log, and an answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, note)
        # Nothing a page does may end the daemon, or leave a reader without an answer.
        except Exception:
            log.exception("a page failed", extra={"address": scope["path"][:MAX_TOLD]})
            if not begun:
                await JSONResponse({"error": "internal error; the daemon's log has the details"}, 500)(scope, receive, send)


def make_app(site: Site, health: Callable[[], Mapping[str, Any]]) -> Starlette:
    """Everything that is answered at the daemon's port."""
    collector = DaemonCollector(site.store, site.project.state, site.model, health, site.matrices)
    registry, dashboard = make_registry(collector), Dashboard(site)
    settings = site.project.settings.metrics

    def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def show_health(request: Request) -> Response:  # on the loop: it waits for no page's thread
        said = dict(health())
        # Warnings tell paths and names: strangers hear only how it is.
        shown = said if may_read(settings, request.headers) else {"state": said.get("state")}
        return JSONResponse(shown, 503 if said.get("state") == "degraded" else 200)

    async def fail(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException | AdaptdError)
        return dashboard.fail(problem)

    app = Starlette(
        routes=[Route("/metrics", metrics), Route("/health", show_health), *dashboard.routes()],
        exception_handlers={HTTPException: fail, AdaptdError: fail},
    )
    app.add_middleware(Careful)
    app.add_middleware(Guard, settings=settings)
    app.state.closing = dashboard.pulse.closing
    return app


class HttpThread:
    """Serves an app beside the supervisor's loop."""

    def __init__(self, app: Starlette, host: str, port: int, max_connections: int = 128) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Bound here, so that a port in use is an error of the start and not a line in a thread's log.
        self._socket = socket.create_server((host, port), family=family)
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self._socket.getsockname()[1]}"
        self._closing: threading.Event = app.state.closing
        self._server = make_server(app, max_connections)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being answered; streams, which would never end, are told to."""
        self._closing.set()
        self._server.should_exit = True
        self._thread.join(2)
        self._socket.close()
