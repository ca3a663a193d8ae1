"""What each address answers: the protocol's documents, `infer`, `predict`, health and metrics. Routing is in `app`."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import numpy as np
from numpy.typing import NDArray

from adaptd.errors import ClientLeft, ImageRejected, NothingPublished, RequestRefused
from adaptd.observe.serving_metrics import ServingMetrics
from adaptd.serving.batching import Batcher
from adaptd.serving.catalogue import Catalogue
from adaptd.serving.decoding import Decoded, Decoding
from adaptd.serving.descriptions import describe_config, describe_index, describe_model, describe_server
from adaptd.serving.http import BINARY, Answer, Header, find_header, json_answer
from adaptd.serving.models import parse_version
from adaptd.serving.openapi import describe_api
from adaptd.serving.page import PAGE_HEADERS, page_file, render_page, show_pictures
from adaptd.serving.predictions import describe_prediction
from adaptd.serving.protocol import InferRequest, is_large, parse_infer, render_infer, split_body
from adaptd.serving.session import Images, Model, Outputs
from adaptd.serving.statistics import Statistics

JSON_LENGTH = b"inference-header-content-length"
MAX_INDEX_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was let in, whole; `gone` tells whether its client has left."""

    path: str
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

    async def get_model(self, version: str | None) -> Model:
        """A version by its number as clients write it, or the one that is served."""
        if version is None:
            return self.catalogue.get_current()
        number = parse_version(version)
        if number is None:
            raise RequestRefused(400, f"a version is a decimal number, not {version[:40]!r}")
        return await self.catalogue.get(number)

    async def _asked(self, request: Request) -> Model:
        """The version that `?version=` asks for, or the one that is served."""
        asked = parse_qs(request.query.decode("latin-1"), keep_blank_values=True).get("version")
        return await self.get_model(asked[-1] if asked else None)

    async def infer(self, request: Request) -> Answer:
        """`POST …/infer`."""
        length = find_header(request.headers, JSON_LENGTH)
        large = is_large(split_body(request.body, length)[0])
        parse = partial(parse_infer, request.body, length)
        model, wanted, outputs = await self.run(request.version, parse, request.gone, large=large)
        body, length_of_json = render_infer(model, wanted, outputs)
        if length_of_json is None:
            return Answer(200, body)
        return Answer(200, body, (BINARY, (JSON_LENGTH, b"%d" % length_of_json)))

    async def run(
        self, version: str | None, parse: Callable[[Model, int], InferRequest], gone: Callable[[], bool], *, large: bool
    ) -> tuple[Model, InferRequest, Outputs]:
        """What a version answers to tensors; a large request is read beside the loop, one after the other."""
        model = await self.get_model(version)
        self._batcher.check_room()

        def read() -> InferRequest:
            if gone():
                raise ClientLeft("the client left before its request was read")
            return parse(model, self._batcher.max_batch_size)

        wanted = await asyncio.get_running_loop().run_in_executor(self._parser, read) if large else read()
        return model, wanted, await self._batcher.submit(model, wanted.images, gone)

    async def predict(self, request: Request) -> Answer:
        """`POST /predict[?version=N]`: one image file as the body, several as a form, or base64 in JSON."""
        model, files, rows = await self._label(request)
        names = [{} if file.name is None else {"image": file.name} for file in files]
        predictions = [name | row for name, row in zip(names, rows, strict=True)]
        return json_answer({"model": model.name, "version": str(model.version), "predictions": predictions})

    async def _label(self, request: Request) -> tuple[Model, list[Decoded], list[dict[str, Any]]]:
        """The version that was asked, the files, and for each its label or why it has none."""
        self._batcher.check_room(self._decoding.requests)
        model = await self._asked(request)
        kind = find_header(request.headers, b"content-type") or b""
        files = await self._decoding.decode(request.body, kind, model, request.gone)
        rejected = [file.image for file in files if isinstance(file.image, ImageRejected)]
        if len(rejected) == len(files):
            raise RequestRefused(400, f"the image cannot be used: {rejected[0]}")
        images = [file.image for file in files if not isinstance(file.image, ImageRejected)]
        answers = iter(await self._predict(model, images, request))
        rows = [
            {"error": str(file.image)}
            if isinstance(file.image, ImageRejected)
            else describe_prediction(next(answers), model.classes)
            for file in files
        ]
        return model, files, rows

    async def _predict(self, model: Model, images: list[Images], request: Request) -> list[NDArray[np.float32]]:
        """Probabilities of each image; a large request runs piece by piece and leaves room for others in between."""
        size = self._batcher.max_batch_size
        rows: list[NDArray[np.float32]] = []
        for start in range(0, len(images), size):
            _, probabilities = await self._batcher.submit(model, np.stack(images[start : start + size]), request.gone)
            rows.extend(probabilities)
        return rows

    async def page(self, request: Request) -> Answer:
        """`GET /[?version=N]`: a form to try the model with; `POST /`: what it says to the pictures of the form."""
        model, problem, status = self.catalogue.current, None, 200
        files: list[Decoded] = []
        rows: list[dict[str, Any]] = []
        try:
            model = await self._asked(request)
            if request.body:
                model, files, rows = await self._label(request)
        except NothingPublished:
            status = 503
        except RequestRefused as refusal:
            problem, status = str(refusal), refusal.status
        pictures = await asyncio.to_thread(show_pictures, files, rows) if files else []
        page = render_page(self.catalogue.name, model, pictures, len(files) - len(pictures), problem)
        return Answer(status, page, PAGE_HEADERS)

    async def page_file(self, request: Request) -> Answer:
        """`GET /page.css`, `/page.js`."""
        return page_file(request.path)

    async def openapi(self, _: Request) -> Answer:
        """`GET /openapi.json`."""
        return json_answer(describe_api())

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
        return json_answer(describe_model(await self.get_model(request.version), self.catalogue))

    async def model_ready(self, request: Request) -> Answer:
        """`GET /v2/models/{m}/ready`."""
        model = await self.get_model(request.version)
        return json_answer({"name": model.name, "ready": True})

    async def config(self, request: Request) -> Answer:
        """`GET /v2/models/{m}/config`."""
        return json_answer(describe_config(await self.get_model(request.version), self._batcher.max_batch_size))

    async def statistics(self, request: Request) -> Answer:
        """`GET /v2/models/{m}/stats`."""
        model = await self.get_model(request.version)
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
