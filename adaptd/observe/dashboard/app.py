"""The pages' addresses. Each reads the store in one view, and hands what it found to a template."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.convertors import IntegerConvertor, StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from adaptd.errors import AdaptdError, RequestRefused, StoreError
from adaptd.observe.dashboard.actions import ACTIONS, MAX_FORM_BYTES, Actions, release_words
from adaptd.observe.dashboard.doings import DOINGS, EVERYTHING
from adaptd.observe.dashboard.domain import view_domain
from adaptd.observe.dashboard.domains import Asked, view_doing, view_domains
from adaptd.observe.dashboard.gallery import Wanted
from adaptd.observe.dashboard.labelling import change_labels, view_labels
from adaptd.observe.dashboard.matrix import view_matrix
from adaptd.observe.dashboard.overview import read_curves, view_events, view_overview
from adaptd.observe.dashboard.rendering import STATIC, render
from adaptd.observe.dashboard.site import PageLinks, Site
from adaptd.observe.dashboard.stream import Pulse
from adaptd.observe.dashboard.versions import AskedVersions, view_version, view_versions
from adaptd.store import Transaction

EVENTS = 100
LONGEST = 300
"""Characters of a word in an address that are looked at."""
RETRY_SECONDS = "2"
PICTURE_SECONDS = 86400
"""How long a browser may keep a picture: an image never changes."""


class _Number(IntegerConvertor):
    """A number that a database can hold; any other is at no address."""

    regex = "[0-9]{1,18}"


class _Name(StringConvertor):
    """What may be a domain's name: of 255 bytes each may be spelled out in four characters. Anything else is at no address."""

    regex = r"[^/\x00]{1,1020}"


register_url_convertor("number", _Number())
register_url_convertor("name", _Name())

WHERE: dict[str, tuple[str, ...]] = {"": EVERYTHING, "/domains/{name:name}": tuple(DOINGS)}
"""Below which addresses what can be done."""

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
            "/domains": ("domains.html", lambda tx, request: view_domains(tx, site, _asked(request))),
            "/domains/{name:name}": (
                "domain.html",
                lambda tx, request: view_domain(tx, site, request.path_params["name"], _wanted(request)),
            ),
            "/domains/{name:name}/labels": ("labels.html", self._view_labels),
            "/versions": ("versions.html", lambda tx, request: view_versions(tx, site, _asked_versions(request))),
            "/versions/{number:number}": (
                "version.html",
                lambda tx, request: view_version(tx, site, request.path_params["number"]),
            ),
            "/events": ("events.html", self._view_events),
        }
        return [
            *(Route(address, self._page(template, view)) for address, (template, view) in pages.items()),
            Route("/domains/{name:name}/labels", self._label, methods=["POST"], max_body_size=MAX_FORM_BYTES),
            Route("/matrix.csv", self._csv),
            Route("/curves.json", self._curves),
            *(
                Route(f"{of}/do/{action}", self._ask(action), methods=["GET"])
                for of, actions in WHERE.items()
                for action in actions
            ),
            *(
                Route(f"{of}/do/{action}", self._do(action), methods=["POST"], max_body_size=MAX_FORM_BYTES)
                for of, actions in WHERE.items()
                for action in actions
            ),
            Route("/domains/{name:name}/images/{image:number}.png", self._picture),
            *(
                Route(f"/versions/{{number:number}}/{action}", self._act(action), methods=["POST"], max_body_size=MAX_FORM_BYTES)
                for action in ACTIONS
            ),
            Route("/events/stream", self._listen),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def _page(self, template: str, view: View) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            with self._site.store.reading() as tx:
                values = view(tx, request)
            return self._html(template, values)

        return answer

    def fail(self, problem: AdaptdError | HTTPException) -> Response:
        """An error as a page."""
        match problem:
            case HTTPException(status_code=status):
                text = problem.detail if status != 404 else "there is nothing at this address"
            case RequestRefused(status=status):
                text = str(problem)
            case _:
                status, text = 503 if isinstance(problem, StoreError) else 404, str(problem)
        page = self._html("error.html", {"text": text, "status": status}, status)
        if status == 503:
            page.headers["Retry-After"] = RETRY_SECONDS
        return page

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
            text = self._site.matrices.read_csv(tx)
        return PlainTextResponse(
            text, media_type="text/csv", headers={"Content-Disposition": 'attachment; filename="matrix.csv"'}
        )

    def _picture(self, request: Request) -> Response:
        with self._site.store.reading() as tx:
            domain, image = tx.domains.find(request.path_params["name"]), tx.images.find(request.path_params["image"])
        png = None
        if domain is not None and image is not None and image.domain_id == domain.id:
            png = self._site.pictures.find_png(image, large="large" in request.query_params)
        if png is None:
            return PlainTextResponse("no such picture\n", 404)
        return Response(png, media_type="image/png", headers={"Cache-Control": f"private, max-age={PICTURE_SECONDS}"})

    def _act(self, action: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            number = request.path_params["number"]
            form = await self._actions.read(request)
            result = await run_in_threadpool(self._actions.run, release_words(action, number, form))
            back = [("/versions", "all versions"), (f"/versions/{number}", f"version {number}")]
            return self._html("done.html", {"result": result, "back": back}, 200 if result.succeeded else 409)

        return answer

    def _ask(self, action: str) -> Callable[[Request], Response]:
        """The page on which a person says yes, with the token."""

        def answer(request: Request) -> Response:
            if not self._actions.is_offered:
                raise RequestRefused(404, "nothing can be changed here: set ADAPTD_METRICS__TOKEN")
            with self._site.store.reading() as tx:
                values = view_doing(tx, self._site, action, request.path_params.get("name"))
            return self._html("act.html", values)

        return answer

    def _do(self, action: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            form, name = await self._actions.read(request), request.path_params.get("name")
            if name is not None:
                await run_in_threadpool(self._check_domain, name)
            result = await run_in_threadpool(self._actions.run, DOINGS[action].words(name or "", form))
            back = [("/", "overview")] + ([] if name is None else [(PageLinks().domain(name), name)])
            return self._html("done.html", {"result": result, "back": back}, 200 if result.succeeded else 409)

        return answer

    def _check_domain(self, name: str) -> None:
        """DomainUnknown before a command is begun for nothing."""
        with self._site.store.reading() as tx:
            tx.domains.get_named(name)

    def _curves(self, _: Request) -> Response:
        with self._site.store.reading() as tx:
            return JSONResponse(read_curves(tx))

    def _view_labels(self, tx: Transaction, request: Request) -> dict[str, Any]:
        count, image = _number(request, "count"), _number(request, "image")
        teach = "teach" in request.query_params
        return view_labels(tx, self._site, request.path_params["name"], count, image, teach=teach)

    async def _label(self, request: Request) -> Response:
        """One label from the page: told as JSON to its script, else the next image."""
        wants_json = request.headers.get("accept", "") == "application/json"
        try:
            form = await self._actions.read(request)
            known = await run_in_threadpool(self._change_labels, request, form)
        except RequestRefused as problem:
            if not wants_json:
                raise
            return JSONResponse({"error": str(problem)}, problem.status)
        except AdaptdError as problem:
            if not wants_json:
                raise
            return JSONResponse({"error": str(problem)}, 503 if isinstance(problem, StoreError) else 404)
        # Relative, so that it holds behind a proxy too: the same page, with the next image.
        return JSONResponse(known) if wants_json else RedirectResponse(f"labels?{request.url.query}", 303)

    def _change_labels(self, request: Request, form: dict[str, str]) -> dict[str, Any]:
        with self._site.store.writing() as tx:
            return change_labels(tx, self._site, request.path_params["name"], form, teach="teach" in request.query_params)

    async def _listen(self, _: Request) -> Response:
        self.pulse.check_room()
        return StreamingResponse(self.pulse.listen(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _number(request: Request, name: str) -> int | None:
    """A whole number of the address; anything else is as good as none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _asked(request: Request) -> Asked:
    words = request.query_params
    name, state = words.get("name", "")[:LONGEST], words.get("state", "")[:LONGEST]
    return Asked(words.get("sort", "newest")[:LONGEST], state, name, _number(request, "page") or 0)


def _wanted(request: Request) -> Wanted:
    words = request.query_params
    predicted, change, sure = (words.get(name, "")[:LONGEST] for name in ("class", "change", "sure"))
    return Wanted(predicted, change, sure, _number(request, "page") or 0)


def _asked_versions(request: Request) -> AskedVersions:
    words = request.query_params
    return AskedVersions(words.get("sort", "newest")[:LONGEST], words.get("state", "")[:LONGEST], _number(request, "page") or 0)
