"""The Open Inference Protocol over gRPC, beside HTTP and with the same answers: `tritonclient.grpc` works unmodified.

Needs the extra `grpc`. Every call is declared as a stream of messages of which one is read: on the wire that is the same, and
but for its first 64 KB no message is received before its client has shown its token and got its place among those that send.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from adaptd.connections import HEADER_SECONDS, KEEP_ALIVE_SECONDS, MAX_HEADER_BYTES
from adaptd.errors import ClientLeft, NothingPublished, RequestRefused, ServingError
from adaptd.observe.serving_metrics import ServingMetrics
from adaptd.project.settings import ServingSettings
from adaptd.publishing.card import INPUT
from adaptd.serving.descriptions import describe_model, describe_server
from adaptd.serving.endpoints import Endpoints
from adaptd.serving.http import CLIENT_LEFT, Budget, Held, is_token
from adaptd.serving.protocol import LARGE, MAX_BESIDE, MAX_ID, InferRequest, describe_outputs, read_images, read_outputs
from adaptd.serving.rpc_messages import SERVICE, build_messages
from adaptd.serving.session import Model

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines on standard error are no JSON
import grpc

log = logging.getLogger("adaptd.serving")

ENDPOINTS = {"ModelInfer": "infer", "ServerLive": "health", "ServerReady": "health"}
"""What a call is counted as; any other as `model`."""
TURN_SECONDS = 1.0
"""A client that sends for longer than this makes room where others wait."""
PIECE = 1 << 16
"""Numbers of a tensor converted at once: others get their turn in between."""
CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""The code that stands for an HTTP status; calls are counted by the status, together with those over HTTP."""
Call = Callable[[bytes, Any], Awaitable[dict[str, Any]]]
"""From a message and its context to the fields of the answer."""
OPEN = frozenset({"ServerLive", "ServerReady"})
"""Calls that need no token, as over HTTP."""


class Readings:
    """Messages that are being received, few at a time: each may be as large as a request may be.

    Of those that wait, the newest is next, so that clients who call and do not send stand in nobody's way.

    Args:
        places: messages at a time.
        max_waiting: calls that may wait for a place; beyond that the oldest is sent away.
        max_seconds: how long a message may take to arrive.
    """

    def __init__(self, places: int, max_waiting: int, max_seconds: float) -> None:
        self._free, self._max_waiting, self._max_seconds = places, max_waiting, max_seconds
        self._waiting: dict[asyncio.Future[None], None] = {}  # oldest first

    async def read(self, receive: Callable[[], Awaitable[bytes]]) -> bytes:
        """A message; RequestRefused where its client is too slow."""
        await self._enter()
        reading, begin = asyncio.ensure_future(receive()), time.monotonic()
        try:
            while not reading.done():
                await asyncio.wait({reading}, timeout=TURN_SECONDS)
                if not reading.done() and (self._waiting or time.monotonic() - begin > self._max_seconds):
                    raise RequestRefused(408, "the message took too long to arrive")
            data = reading.result()
            return b"" if data is grpc.aio.EOF else data  # a message without any field, too, has no bytes
        finally:
            reading.cancel()
            self._leave()

    async def _enter(self) -> None:
        if self._free:
            self._free -= 1
            return
        if len(self._waiting) >= self._max_waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.set_exception(RequestRefused(503, "too many clients are sending; try again later"))
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            await asyncio.shield(turn)  # so that nobody but us ends it
        except asyncio.CancelledError:
            if turn not in self._waiting and turn.exception() is None:  # it was given a place this very moment
                self._leave()
            self._waiting.pop(turn, None)
            raise

    def _leave(self) -> None:
        """The place goes to the newest that waits."""
        if self._waiting:
            self._waiting.popitem()[0].set_result(None)
        else:
            self._free += 1


class Service:
    """Answers calls, each by the method of its name."""

    def __init__(
        self, settings: ServingSettings, endpoints: Endpoints, metrics: ServingMetrics, budget: Budget, readings: Readings
    ) -> None:
        self._endpoints, self._catalogue, self._metrics = endpoints, endpoints.catalogue, metrics
        self._budget, self._readings = budget, readings
        self._token, self._max_batch_size = settings.token.encode(), settings.max_batch_size
        self._messages = build_messages()

    def handlers(self) -> grpc.GenericRpcHandler:
        """Every call that is known; any other is UNIMPLEMENTED."""
        calls: dict[str, Call] = {
            "ServerLive": self._live,
            "ServerReady": self._ready,
            "ServerMetadata": self._server,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._model,
            "ModelInfer": self._infer,
        }
        made = {name: grpc.stream_unary_rpc_method_handler(partial(self._answer, name, call)) for name, call in calls.items()}
        return grpc.method_handlers_generic_handler(SERVICE, made)

    async def _answer(self, name: str, call: Call, _: Any, context: Any) -> bytes:
        """One call: its token, its message, its answer; whatever goes wrong becomes a code."""
        start, held = time.perf_counter(), Held(self._budget)
        status, message, answer = CLIENT_LEFT, "", b""
        try:
            self._check(name, context)
            data = await self._readings.read(context.read)
            held.add(len(data))
            answer = self._messages[f"{name}Response"](**await call(data, context)).SerializeToString()
            status = 200
        except RequestRefused as refusal:
            status, message = refusal.status, str(refusal)
        except NothingPublished as problem:
            status, message = 503, str(problem)
        except ClientLeft:
            pass
        # Nothing a client sends may end the server, or leave the client without an answer.
        except Exception:
            log.exception("a call of %s failed", name)
            status, message = 500, "internal error; the server's log has the details"
        finally:  # also where the call was cancelled
            held.close()
            self._metrics.answered(ENDPOINTS.get(name, "model"), status, time.perf_counter() - start)
        if status in CODES:
            await context.abort(CODES[status], message)
        return answer

    def _check(self, name: str, context: Any) -> None:
        given = next((value for key, value in context.invocation_metadata() or () if key == "authorization"), "")
        authorization = given.encode() if isinstance(given, str) else given
        if self._token and name not in OPEN and not is_token(authorization, self._token):
            raise RequestRefused(401, "this server wants its token, as metadata `authorization: Bearer TOKEN`")

    def _parse(self, name: str, data: bytes) -> Any:
        try:
            return self._messages[name].FromString(data)
        # The parser's own exception is another in each of its implementations.
        except Exception as problem:
            raise RequestRefused(400, f"the message is no {name}") from problem

    async def _live(self, _: bytes, __: Any) -> dict[str, Any]:
        return {"live": True}

    async def _ready(self, _: bytes, __: Any) -> dict[str, Any]:
        return {"ready": self._catalogue.current is not None}

    async def _server(self, _: bytes, __: Any) -> dict[str, Any]:
        return describe_server()

    async def _model_ready(self, data: bytes, _: Any) -> dict[str, Any]:
        asked = self._parse("ModelReadyRequest", data)
        try:
            await self._find(asked.name, asked.version)
        except (RequestRefused, NothingPublished):
            return {"ready": False}
        return {"ready": True}

    async def _model(self, data: bytes, _: Any) -> dict[str, Any]:
        asked = self._parse("ModelMetadataRequest", data)
        return describe_model(await self._find(asked.name, asked.version), self._catalogue)

    async def _find(self, name: str, version: str) -> Model:
        self._check_name(name)
        return await self._endpoints.get_model(version or None)

    def _check_name(self, name: str) -> None:
        if name != self._catalogue.name:
            raise RequestRefused(404, f"unknown model {name[:64]!r}: this server has {self._catalogue.name}")

    async def _infer(self, data: bytes, context: Any) -> dict[str, Any]:
        model = self._catalogue.get_current()
        # Numbers take two bytes each on the wire, raw bytes one.
        fits = 2 * self._max_batch_size * model.image_bytes + MAX_BESIDE
        if len(data) > fits:
            raise RequestRefused(413, f"the message has {len(data)} bytes, a full batch of images at most {fits}")
        asked = self._parse("ModelInferRequest", data)
        self._check_name(asked.model_name)
        parse = partial(_read, asked)
        model, wanted, outputs = await self._endpoints.run(
            asked.model_version or None, parse, context.done, large=len(data) > LARGE
        )
        described, tensors = describe_outputs(model, wanted, outputs)
        return {
            "model_name": model.name,
            "model_version": str(model.version),
            "id": wanted.id or "",
            "outputs": [{name: each[name] for name in ("name", "datatype", "shape")} for each in described],
            "raw_output_contents": tensors,
        }


def _read(asked: Any, model: Model, max_batch_size: int) -> InferRequest:
    """A ModelInferRequest, checked as one over HTTP is."""
    if len(asked.id) > MAX_ID:
        raise RequestRefused(400, f"id must be a string of at most {MAX_ID} characters")
    if len(asked.inputs) != 1:
        raise RequestRefused(400, f"the request must have exactly one input, {INPUT}")
    (tensor,), raw = asked.inputs, asked.raw_input_contents
    if len(raw) > 1 or (raw and tensor.contents.uint_contents):
        raise RequestRefused(400, "the input comes once: as raw_input_contents, or as uint_contents")
    content = raw[0] if raw else _join(tensor.contents.uint_contents)
    described = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    described["parameters"] = {"binary_data_size": len(content)}
    outputs = [
        {"name": output.name, "parameters": {entry.key: entry.value.int64_param for entry in output.parameters}}
        for output in asked.outputs
    ]
    wanted = [output | {"parameters": output["parameters"] | {"binary_data": True}} for output in outputs]
    document = {"outputs": wanted, "parameters": {"binary_data_output": True}}
    return InferRequest(asked.id, read_images(described, memoryview(content), model, max_batch_size), read_outputs(document))


def _join(numbers: Any) -> bytes:
    """A tensor's numbers as bytes, piece by piece."""
    try:
        return b"".join(bytes(numbers[start : start + PIECE]) for start in range(0, len(numbers), PIECE))
    except ValueError as problem:
        raise RequestRefused(400, f"data of input {INPUT} must be integers from 0 to 255") from problem


class RpcServer:
    """The service at its port; made on the loop that it lives on."""

    def __init__(self, settings: ServingSettings, endpoints: Endpoints, metrics: ServingMetrics, budget: Budget) -> None:
        places = max(2, settings.max_held_bytes // settings.max_request_bytes)
        self._grace = settings.request_seconds + 30
        self._server = grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=2 * settings.max_connections)
        readings = Readings(places, settings.max_connections, settings.request_seconds)
        service = Service(settings, endpoints, metrics, budget, readings)
        self._server.add_generic_rpc_handlers((service.handlers(),))
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        try:
            self._server.add_insecure_port(f"{host}:{settings.grpc_port}")
        except RuntimeError as problem:
            remedy = "stop what listens there, or choose another serving.grpc_port"
            raise ServingError(f"cannot listen for gRPC on {host} port {settings.grpc_port}: {remedy}") from problem

    async def start(self) -> None:
        """Answer."""
        await self._server.start()

    async def stop(self) -> None:
        """Take no more calls, finish those that were begun."""
        await self._server.stop(self._grace)


def _options(settings: ServingSettings) -> list[tuple[str, int]]:
    """The library's own limits."""
    return [
        ("grpc.max_receive_message_length", settings.max_request_bytes),  # also of what a compressed one unpacks to
        # Else a second server on the port would get some of the calls, and nobody would be told.
        ("grpc.so_reuseport", 0),
        # What waits to be read stays small: 64 KB a call, instead of what the line could bear.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_metadata_size", MAX_HEADER_BYTES),
        ("grpc.server_handshake_timeout_ms", int(HEADER_SECONDS * 1000)),
        ("grpc.max_connection_idle_ms", KEEP_ALIVE_SECONDS * 1000),
    ]
