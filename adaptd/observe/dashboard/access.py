"""Who may read pages and who may change something. Metrics are open, since scrapers knock; of health strangers hear the state.

On loopback everybody on the machine may read, but only under a name that is the machine's own: a web page elsewhere must
not reach the daemon through a name that it controls. Beyond loopback a reader needs the token, or `metrics.insecure`.
"""

import base64
import binascii
import hmac
import ipaddress

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adaptd.machine import is_loopback
from adaptd.project.settings import MetricsSettings

OPEN = frozenset({"/metrics", "/health"})
POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_token(given: str, token: str) -> bool:
    """Compared in a time that tells nothing; an empty token is nobody's."""
    return bool(token) and hmac.compare_digest(given.encode(), token.encode())


def is_from_here(headers: Headers) -> bool:
    """Whether a request that changes something comes from our own page, or from no page at all."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def may_read(settings: MetricsSettings, headers: Headers) -> bool:
    """Whether a request may be told everything."""
    return _find_refusal(settings, headers) is None


class Guard:
    """Lets a request through to the pages, or answers it."""

    def __init__(self, app: ASGIApp, settings: MetricsSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = None if scope["path"] in OPEN else _find_refusal(self._settings, Headers(scope=scope))
        return await (refusal or self._app)(scope, receive, send_with_headers)


def _find_refusal(settings: MetricsSettings, headers: Headers) -> Response | None:
    """What a reader is answered who may not read; None for one who may."""
    if settings.insecure:
        return None
    if is_loopback(settings.host):
        if _is_own_name(headers.get("host", ""), settings.host):
            return None
        return PlainTextResponse("unknown host: use 127.0.0.1, or set metrics.insecure behind a proxy\n", 421)
    if not settings.token:
        text = "others can reach this address: set ADAPTD_METRICS__TOKEN, or metrics.insecure, to see the pages\n"
        return PlainTextResponse(text, 403)
    if is_token(_given(headers.get("authorization", "")), settings.token):
        return None
    return PlainTextResponse("the token is needed, as the password\n", 401, {"WWW-Authenticate": 'Basic realm="adaptd"'})


def _is_own_name(host: str, own: str) -> bool:
    """A number, localhost or the configured name: none that somebody else could point here."""
    name = host.rpartition("]")[0].removeprefix("[") or host.partition(":")[0]
    if name.lower() in {"localhost", own.lower()}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _given(authorization: str) -> str:
    """The token of a Bearer header, or the password of a Basic one."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
