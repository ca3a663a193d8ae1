"""`/openapi.json` is complete and true: every route is in it, and what the server really answers is what it says."""

import json
from unittest.mock import MagicMock

import httpx
import jsonschema
import numpy as np
import pytest

from adaptd.serving.app import Application
from adaptd.serving.openapi import describe_api

from .conftest import NAME, SIZE, models, publish, random_images
from .test_predict import picture

DOCUMENT = describe_api()
PATHS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]
QUESTION = {"inputs": [{"name": "images", "shape": [1, 3, SIZE, SIZE], "datatype": "UINT8"}]}


@pytest.fixture(scope="module")
def server(shop, start):
    """Two versions, and a token."""
    for version in (1, 2):
        publish(models(shop), version)
    return start(shop, token="secret")


@pytest.fixture
def http(server):
    """Who has the token."""
    with server.client(headers={"Authorization": "Bearer secret"}) as client:
        yield client


def check(path: str, method: str, answer: httpx.Response) -> None:
    """The answer's status, type and content are among what the document promises for this address."""
    responses = DOCUMENT["paths"][path][method]["responses"]
    assert str(answer.status_code) in responses, (path, answer.status_code, answer.text[:200])
    content = responses[str(answer.status_code)]["content"]
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in content, (path, kind)
    if kind == "application/json":
        schema = content[kind]["schema"] | {"components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())


def ask(http: httpx.Client, path: str, method: str, **options: object) -> httpx.Response:
    """An address with this server's model in it; a POST has a body that it takes."""
    address = path.replace("{model}", NAME).replace("{version}", "1")
    if method == "post" and not options:
        tensor = QUESTION["inputs"][0] | {"data": random_images(1).ravel().tolist()}
        options = {"json": {"inputs": [tensor]}} if path.endswith("infer") else {"files": [("image", ("a.png", picture(1)))]}
        options = {} if path.endswith("index") else options
    return http.request(method, address, **options)


def test_the_document_is_served_and_its_schemas_are_schemas(server):
    """To anyone, as it is here; each schema is valid JSON Schema, which OpenAPI 3.1 builds on."""
    with server.client() as stranger:
        assert stranger.get("/openapi.json").json() == json.loads(json.dumps(DOCUMENT))
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_route_is_described_and_nothing_else():
    """With its methods, and whether it needs a token."""
    application = Application(MagicMock(), MagicMock(), MagicMock(), MagicMock(), 1, "")
    routes = {path or "/": route for path, route in application._fixed.items()}
    for prefix in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        routes |= {f"{prefix}/{rest}".rstrip("/"): route for rest, route in application._of_a_model.items()}
    wanted = {(path, method.lower()) for path, route in routes.items() for method in route.methods.split("/")}
    assert set(PATHS) == wanted
    for path, method in PATHS:
        assert (DOCUMENT["paths"][path][method]["security"] == []) == routes[path].open, path


@pytest.mark.parametrize(("path", "method"), PATHS)
def test_answers_are_as_described(server, http, path, method):
    """With the token, and without it."""
    answer = ask(http, path, method)
    assert answer.status_code == 200, answer.text
    check(path, method, answer)
    with server.client() as stranger:
        refused = ask(stranger, path, method)
    assert refused.status_code == (401 if DOCUMENT["paths"][path][method]["security"] else 200)
    check(path, method, refused)


@pytest.mark.parametrize(
    "wrong", [{"content": b"{"}, {"content": b"\xff" * 9}, {"json": {}}, {"json": {"images": [1, "#0", ""]}}]
)
@pytest.mark.parametrize(("path", "method"), [pair for pair in PATHS if pair[1] == "post"])
def test_refusals_are_as_described(http, path, method, wrong):
    """Nonsense gets what the document says nonsense gets."""
    check(path, method, ask(http, path, method, **wrong))


def test_other_models_versions_and_encodings(http):
    """404, 400 and 415 are described where they happen."""
    for path, method in PATHS:
        if "{model}" in path:
            check(path, method, http.request(method, path.replace("{model}", "other").replace("{version}", "1")))
        if "{version}" in path:
            for version in ("77", "zero"):
                check(path, method, http.request(method, path.replace("{model}", NAME).replace("{version}", version)))
        if path == "/":
            for version in ("77", "zero"):
                check(path, method, http.request(method, f"/?version={version}"))
        if method == "post" and path != "/v2/repository/index":
            check(path, method, ask(http, path, method, content=b"x", headers={"Content-Encoding": "br"}))


def test_binary_answers_and_large_batches(http):
    """An answer with tensors behind its JSON is described as bytes."""
    data = np.zeros((1, 3, SIZE, SIZE), np.uint8).tobytes()
    tensor = QUESTION["inputs"][0] | {"parameters": {"binary_data_size": len(data)}}
    header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    jsonschema.validate(json.loads(header), DOCUMENT["components"]["schemas"]["InferRequest"])
    path = "/v2/models/{model}/infer"
    answer = ask(http, path, "post", content=header + data, headers={"Inference-Header-Content-Length": str(len(header))})
    assert answer.headers["content-type"] == "application/octet-stream"
    check(path, "post", answer)
