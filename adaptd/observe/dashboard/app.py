"""The pages' addresses. Each reads the store in one view, and hands what it found to a template."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from adaptd.errors import AdaptdError, DomainUnknown, PublishError, RequestRefused, StoreError
from adaptd.observe.dashboard.actions import ACTIONS, MAX_FORM_BYTES, Actions
from adaptd.observe.dashboard.domains import view_domain, view_domains
from adaptd.observe.dashboard.matrix import view_matrix
from adaptd.observe.dashboard.overview import view_events, view_overview
from adaptd.observe.dashboard.rendering import STATIC, render
from adaptd.observe.dashboard.site import Site
from adaptd.observe.dashboard.stream import Pulse
from adaptd.observe.dashboard.versions import view_version, view_versions
from adaptd.store import Transaction

EVENTS = 100
PICTURE_SECONDS = 86400
"""How long a browser may keep a picture: an image never changes."""

View = Callable[[Transaction, Request], dict[str, Any]]


class Dashboard:
    """The pages of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._actions = Actions(site.project.root, site.project.settings.metrics.token)
        self.pulse = Pulse(site)

    def routes(self) -> list[BaseRoute]:
        """Every address."""
        site = self._site
        pages: dict[str, tuple[str, View]] = {
            "/": ("overview.html", lambda tx, _: view_overview(tx, site)),
            "/matrix": (
                "matrix.html",
                lambda tx, request: view_matrix(site.matrices.read(tx), _number(request, "row"), _number(request, "column")),
            ),
            "/domains": ("domains.html", lambda tx, _: view_domains(tx)),
            "/domains/{name}": ("domain.html", lambda tx, request: view_domain(tx, site, request.path_params["name"])),
            "/versions": ("versions.html", lambda tx, request: view_versions(tx, site, _number(request, "before"))),
            "/versions/{number:int}": ("version.html", lambda tx, request: view_version(tx, site, request.path_params["number"])),
            "/events": ("events.html", self._view_events),
        }
        return [
            *(Route(address, self._page(template, view)) for address, (template, view) in pages.items()),
            Route("/matrix.csv", self._csv),
            Route("/domains/{name}/images/{image:int}.png", self._picture),
            *(
                Route(f"/versions/{{number:int}}/{action}", self._act(action), methods=["POST"], max_body_size=MAX_FORM_BYTES)
                for action in ACTIONS
            ),
            Route("/events/stream", self._listen),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def _page(self, template: str, view: View) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                with self._site.store.reading() as tx:
                    values = view(tx, request)
            except (DomainUnknown, PublishError, StoreError) as problem:
                return self.fail(problem)
            return self._html(template, values)

        return answer

    def fail(self, problem: AdaptdError | HTTPException) -> Response:
        """An error as a page."""
        if isinstance(problem, HTTPException):
            status, text = (
                problem.status_code,
                problem.detail if problem.status_code != 404 else "there is nothing at this address",
            )
        else:
            status, text = getattr(problem, "status", 503 if isinstance(problem, StoreError) else 404), str(problem)
        return self._html("error.html", {"text": text, "status": status}, status)

    def _html(self, template: str, values: dict[str, Any], status: int = 200) -> HTMLResponse:
        holder = self._site.find_holder()
        shared = {
            "model": self._site.model,
            "state": "stopped" if holder is None else holder.health.get("state", "idle"),
            "actions_offered": self._actions.is_offered,
        }
        return HTMLResponse(render(template, shared | values), status)

    def _view_events(self, tx: Transaction, request: Request) -> dict[str, Any]:
        events = view_events(tx, EVENTS, _number(request, "before"))
        return {"events": events, "older": events[-1]["id"] if len(events) == EVENTS else None}

    def _csv(self, _: Request) -> Response:
        with self._site.store.reading() as tx:
            text = self._site.matrices.read(tx).to_csv()
        return PlainTextResponse(
            text, media_type="text/csv", headers={"Content-Disposition": 'attachment; filename="matrix.csv"'}
        )

    def _picture(self, request: Request) -> Response:
        with self._site.store.reading() as tx:
            domain, image = tx.domains.find(request.path_params["name"]), tx.images.find(request.path_params["image"])
        png = None
        if domain is not None and image is not None and image.domain_id == domain.id:
            png = self._site.pictures.find_png(image)
        if png is None:
            return PlainTextResponse("no such picture\n", 404)
        return Response(png, media_type="image/png", headers={"Cache-Control": f"private, max-age={PICTURE_SECONDS}"})

    def _act(self, action: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            number = request.path_params["number"]
            try:
                form = await self._actions.read(request)
            except RequestRefused as refusal:
                return self.fail(refusal)
            result = await run_in_threadpool(self._actions.run, action, number, form)
            return self._html("done.html", {"result": result, "number": number}, 200 if result.succeeded else 409)

        return answer

    async def _listen(self, _: Request) -> Response:
        return StreamingResponse(self.pulse.listen(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _number(request: Request, name: str) -> int | None:
    """A whole number of the address; anything else is as good as none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
