"""What each address answers: the protocol's documents, `infer`, `predict`, health and metrics. Routing is in `app`."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import parse_qs

import numpy as np
from numpy.typing import NDArray

from adaptd.errors import ClientLeft, ImageRejected, RequestRefused
from adaptd.observe.serving_metrics import ServingMetrics
from adaptd.serving.batching import Batcher
from adaptd.serving.catalogue import Catalogue
from adaptd.serving.decoding import Decoding
from adaptd.serving.descriptions import describe_config, describe_index, describe_model, describe_server
from adaptd.serving.http import BINARY, Answer, Header, find_header, json_answer
from adaptd.serving.models import parse_version
from adaptd.serving.predictions import describe_prediction
from adaptd.serving.protocol import InferRequest, is_large, parse_infer, render_infer, split_body
from adaptd.serving.session import Images, Model
from adaptd.serving.statistics import Statistics

JSON_LENGTH = b"inference-header-content-length"
MAX_INDEX_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was let in, whole; `gone` tells whether its client has left."""

    headers: list[Header]
    query: bytes
    body: bytes
    version: str | None
    gone: Callable[[], bool]


class Endpoints:
    """The answers of one server, with everything they are made from."""

    def __init__(
        self, catalogue: Catalogue, batcher: Batcher, metrics: ServingMetrics, statistics: Statistics, decoding: Decoding
    ) -> None:
        self.catalogue = catalogue
        self._batcher = batcher
        self._metrics = metrics
        self._statistics = statistics
        self._decoding = decoding
        self._parser = ThreadPoolExecutor(1, "adaptd-parser")

    async def _model(self, version: str | None) -> Model:
        if version is None:
            return self.catalogue.get_current()
        number = parse_version(version)
        if number is None:
            raise RequestRefused(400, f"a version is a decimal number, not {version[:40]!r}")
        return await self.catalogue.get(number)

    async def infer(self, request: Request) -> Answer:
        """`POST …/infer`."""
        model = await self._model(request.version)
        self._batcher.check_room()
        wanted = await self._parse(request, model)
        outputs = await self._batcher.submit(model, wanted.images, request.gone)
        body, length = render_infer(model, wanted, outputs)
        return Answer(200, body) if length is None else Answer(200, body, (BINARY, (JSON_LENGTH, b"%d" % length)))

    async def _parse(self, request: Request, model: Model) -> InferRequest:
        """What is asked; much JSON is read beside the loop, one request after the other."""
        arguments = request.body, find_header(request.headers, JSON_LENGTH), model, self._batcher.max_batch_size
        if not is_large(split_body(*arguments[:2])[0]):
            return parse_infer(*arguments)

        def parse() -> InferRequest:
            if request.gone():
                raise ClientLeft("the client left before its request was read")
            return parse_infer(*arguments)

        return await asyncio.get_running_loop().run_in_executor(self._parser, parse)

    async def predict(self, request: Request) -> Answer:
        """`POST /predict[?version=N]`: one image file as the body, or several as a form."""
        self._batcher.check_room(self._decoding.requests)
        asked = parse_qs(request.query.decode("latin-1"), keep_blank_values=True).get("version")
        model = await self._model(asked[-1] if asked else None)
        kind = find_header(request.headers, b"content-type") or b""
        decoded = await self._decoding.decode(request.body, kind, model, request.gone)
        rejected = [image for image in decoded if isinstance(image, ImageRejected)]
        if len(rejected) == len(decoded):
            raise RequestRefused(400, f"the image cannot be used: {rejected[0]}")
        answers = iter(await self._predict(model, [image for image in decoded if not isinstance(image, ImageRejected)], request))
        predictions = [
            {"error": str(image)} if isinstance(image, ImageRejected) else describe_prediction(next(answers), model.classes)
            for image in decoded
        ]
        return json_answer({"model": model.name, "version": str(model.version), "predictions": predictions})

    async def _predict(self, model: Model, images: list[Images], request: Request) -> list[NDArray[np.float32]]:
        """Probabilities of each image; a large request runs piece by piece and leaves room for others in between."""
        size = self._batcher.max_batch_size
        rows: list[NDArray[np.float32]] = []
        for start in range(0, len(images), size):
            _, probabilities = await self._batcher.submit(model, np.stack(images[start : start + size]), request.gone)
            rows.extend(probabilities)
        return rows

    async def server(self, _: Request) -> Answer:
        """`GET /v2`."""
        return json_answer(describe_server())

    async def live(self, _: Request) -> Answer:
        """`GET /v2/health/live`."""
        return json_answer({"live": True})

    async def ready(self, _: Request) -> Answer:
        """`GET /v2/health/ready`."""
        ready = self.catalogue.current is not None
        return json_answer({"ready": ready}, 200 if ready else 503)

    async def health(self, _: Request) -> Answer:
        """`GET /health`: the same for people and simple probes."""
        model = self.catalogue.current
        if model is None:
            return json_answer({"status": "waiting for a first version", "model": self.catalogue.name, "version": None}, 503)
        return json_answer({"status": "ok", "model": model.name, "version": str(model.version)})

    async def metadata(self, request: Request) -> Answer:
        """`GET /v2/models/{m}`."""
        return json_answer(describe_model(await self._model(request.version), self.catalogue))

    async def model_ready(self, request: Request) -> Answer:
        """`GET /v2/models/{m}/ready`."""
        model = await self._model(request.version)
        return json_answer({"name": model.name, "ready": True})

    async def config(self, request: Request) -> Answer:
        """`GET /v2/models/{m}/config`."""
        return json_answer(describe_config(await self._model(request.version), self._batcher.max_batch_size))

    async def statistics(self, request: Request) -> Answer:
        """`GET /v2/models/{m}/stats`."""
        model = await self._model(request.version)
        return json_answer({"model_stats": [self._statistics.describe(model.name, model.version)]})

    async def index(self, request: Request) -> Answer:
        """`POST /v2/repository/index`."""
        if len(request.body) > MAX_INDEX_BYTES:
            raise RequestRefused(413, f"the request is larger than {MAX_INDEX_BYTES} bytes")
        try:
            wanted = json.loads(request.body or b"{}")
            only_ready = bool(wanted.get("ready", False))
        except (ValueError, AttributeError, RecursionError) as problem:
            raise RequestRefused(400, "the body must be a JSON object or empty") from problem
        return json_answer(describe_index(self.catalogue, only_ready))

    async def metrics(self, _: Request) -> Answer:
        """`GET /metrics`."""
        return Answer(200, self._metrics.render(), ((b"content-type", self._metrics.content_type.encode()),))

    def close(self) -> None:
        """Read and decode nothing more."""
        self._parser.shutdown(cancel_futures=True)
        self._decoding.close()
