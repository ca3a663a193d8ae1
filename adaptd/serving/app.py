"""The ASGI application: routes, the token, time limits, and errors as `{"error": …}`. What is answered is in `endpoints`.

Routed by hand, as docs/decisions/0007-what-we-write-by-hand.md explains.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from adaptd.errors import ClientLeft, NothingPublished, RequestRefused
from adaptd.observe.serving_metrics import ServingMetrics
from adaptd.serving.endpoints import Endpoints, Request
from adaptd.serving.http import CLIENT_LEFT, Answer, BodyReader, Budget, Header, Held, error_answer, find_header, is_token
from adaptd.serving.page import FILES

log = logging.getLogger("adaptd.serving")

PAGE = "page"
NOTHING_HERE = "there is nothing at this address"


@dataclass(frozen=True, slots=True)
class Route:
    """How one address is answered. Open ones need no token: an orchestrator asks them, and they tell nothing worth hiding."""

    endpoint: str
    methods: str
    answer: Callable[[Request], Awaitable[Answer]]
    open: bool = False

    def describe(self, status: int) -> tuple[Header, ...]:
        """What a client that was refused must know of it; a browser asks a person for the token as a password."""
        challenge = b'Basic realm="adaptd"' if self.endpoint == PAGE else b"Bearer"
        known: dict[int, Header] = {
            401: (b"www-authenticate", challenge),
            405: (b"allow", self.methods.replace("/", ", ").encode()),
        }
        return (known[status],) if status in known else ()

    def takes(self, method: str) -> bool:
        """Whether it answers to this method."""
        return method in self.methods.split("/") or (method == "HEAD" and self.takes("GET"))


class Application:
    """Answers HTTP requests.

    Args:
        endpoints: what is answered.
        metrics: where requests are counted.
        bodies: reads bodies within their limits.
        budget: for what all requests hold in memory.
        request_seconds: how long a body may take to arrive.
        token: what clients must send; empty for none.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        metrics: ServingMetrics,
        bodies: BodyReader,
        budget: Budget,
        request_seconds: float,
        token: str,
    ) -> None:
        self._catalogue = endpoints.catalogue
        self._metrics = metrics
        self._bodies, self._budget = bodies, budget
        self._request_seconds = request_seconds
        self._token = token.encode()
        self._fixed = {
            "": Route(PAGE, "GET/POST", endpoints.page),
            **{path: Route(PAGE, "GET", endpoints.page_file, open=True) for path in FILES},
            "/openapi.json": Route("model", "GET", endpoints.openapi, open=True),
            "/v2": Route("model", "GET", endpoints.server),
            "/v2/health/live": Route("health", "GET", endpoints.live, open=True),
            "/v2/health/ready": Route("health", "GET", endpoints.ready, open=True),
            "/health": Route("health", "GET", endpoints.health, open=True),
            "/v2/models/stats": Route("model", "GET", endpoints.statistics),
            "/v2/repository/index": Route("repository", "POST", endpoints.index),
            "/predict": Route("predict", "POST", endpoints.predict),
            "/metrics": Route("metrics", "GET", endpoints.metrics),
        }
        self._of_a_model = {
            "infer": Route("infer", "POST", endpoints.infer),
            "": Route("model", "GET", endpoints.metadata),
            "ready": Route("model", "GET", endpoints.model_ready),
            "config": Route("model", "GET", endpoints.config),
            "stats": Route("model", "GET", endpoints.statistics),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        start = time.perf_counter()
        endpoint, route, held = "other", None, Held(self._budget)
        try:
            route, version = self._find(scope["path"])
            endpoint = route.endpoint
            self._check(scope, route)
            # Without a name, so that nothing of the request is kept while its answer waits to be read.
            answer = await route.answer(await self._read(scope, receive, version, held))
        except ClientLeft:
            self._metrics.answered(endpoint, CLIENT_LEFT, time.perf_counter() - start)
            return
        except RequestRefused as refusal:
            answer = error_answer(refusal.status, str(refusal), *(route.describe(refusal.status) if route else ()))
        except NothingPublished as problem:
            answer = error_answer(503, str(problem))
        # Nothing a client sends may end the server, or leave the client without an answer.
        except Exception:
            log.exception("a request to %s failed", endpoint)
            answer = error_answer(500, "internal error; the server's log has the details")
        finally:
            held.close()
        await answer.send(send)
        self._metrics.answered(endpoint, answer.status, time.perf_counter() - start)

    def _find(self, path: str) -> tuple[Route, str | None]:
        """The route of a path, and the version in it."""
        path = path.rstrip("/")
        if path in self._fixed:
            return self._fixed[path], None
        version: str | None = None
        match path.split("/"):
            case ["", "v2", "models", name, "versions", version, *rest]:
                pass
            case ["", "v2", "models", name, *rest]:
                pass
            case _:
                raise RequestRefused(404, NOTHING_HERE)
        route = self._of_a_model.get("/".join(rest))
        if route is None:
            raise RequestRefused(404, NOTHING_HERE)
        if name != self._catalogue.name:
            raise RequestRefused(404, f"unknown model {name[:64]!r}: this server has {self._catalogue.name}")
        return route, version

    def _check(self, scope: Scope, route: Route) -> None:
        if self._token and not route.open:
            given = find_header(scope["headers"], b"authorization") or b""
            # A browser cannot be told to send a Bearer header, but asks for a password.
            if not is_token(given, self._token, as_password=route.endpoint == PAGE):
                raise RequestRefused(401, "this server wants its token, as `Authorization: Bearer TOKEN`")
        if not route.takes(scope["method"]):
            raise RequestRefused(405, f"use {route.methods.replace('/', ' or ')} here")

    async def _read(self, scope: Scope, receive: Receive, version: str | None, held: Held) -> Request:
        """The whole request; its body only where one is awaited."""
        headers = scope["headers"]
        if scope["method"] != "POST":
            return Request(scope["path"], headers, scope["query_string"], b"", version, scope["state"]["gone"])
        try:
            async with asyncio.timeout(self._request_seconds):
                body = await self._bodies.read(headers, receive, held)
        except TimeoutError:
            raise RequestRefused(408, f"the request did not arrive within {self._request_seconds:g} seconds") from None
        encoding = find_header(headers, b"content-encoding")
        if encoding is not None and encoding != b"identity":
            body = await asyncio.to_thread(self._bodies.unpack, body, encoding.lower())
            held.add(len(body))
        return Request(scope["path"], headers, scope["query_string"], body, version, scope["state"]["gone"])
