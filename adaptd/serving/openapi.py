"""The OpenAPI document of `adaptd serve`, at `/openapi.json`: every address, what it takes and what it answers.

`tests/serving/test_openapi.py` holds it against the routes and against real answers.
"""

from typing import Any

from adaptd import __version__
from adaptd.publishing.card import INPUT, OUTPUTS
from adaptd.serving.predictions import TOP
from adaptd.serving.uploads import MAX_FILES, MAX_NAME

Schema = dict[str, Any]

REFUSALS = {
    400: "the request is not what this address takes",
    401: "the token is missing or wrong",
    404: "no such model or version; the message says which there are",
    405: "another method is needed",
    408: "the request did not arrive in time",
    413: "more bytes, pixels, images or decoding time than one request may cost",
    415: "a Content-Encoding other than gzip and deflate",
    503: "busy, or nothing is published yet; Retry-After says when to come back",
}
STRING: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
SHAPE: Schema = {"type": "array", "items": {"type": "integer"}}
VERSION: Schema = {"name": "version", "in": "query", "required": False, "schema": {"type": "integer", "minimum": 1}}
PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}


def describe_api() -> Schema:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "adaptd serve",
            "version": __version__,
            "description": "Labels for image files at /predict, and the Open Inference Protocol (V2) with binary tensors at /v2.",
        },
        "paths": _predict_paths() | _protocol_paths() | _model_paths() | _other_paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "serving.token, where the server has one"},
                "password": {"type": "http", "scheme": "basic", "description": "the same token as a password, for the page"},
            },
        },
    }


def _object(required: dict[str, Schema], **optional: Schema) -> Schema:
    return {"type": "object", "properties": required | optional, "required": list(required), "additionalProperties": False}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _operation(summary: str, answer: Schema, *refusals: int, **more: Any) -> Schema:
    """One method of an address: `answer` is the content of a 200."""
    refused = {str(code): {"description": REFUSALS[code], "content": _json(_ref("Error"))} for code in refusals}
    return {
        "summary": summary,
        "security": [{"token": []}, {}],
        "responses": {"200": {"description": "the answer", "content": answer}} | refused,
    } | more


def _predict_paths() -> Schema:
    files = {"type": "array", "items": {"type": "string", "format": "binary"}, "maxItems": MAX_FILES}
    form = {"multipart/form-data": {"schema": _object({"image": files})}}
    base64 = _object({"images": {"type": "array", "maxItems": MAX_FILES, "items": STRING | {"contentEncoding": "base64"}}})
    bodies = form | _json(base64) | {"image/*": {"schema": {"type": "string", "format": "binary"}}}
    return {
        "/predict": {
            "post": _operation(
                "The label of image files: one as the body, several as parts of a form, or base64 in JSON.",
                _json(_ref("Predictions")),
                *(400, 401, 404, 405, 408, 413, 415, 503),
                parameters=[VERSION],
                requestBody={"required": True, "content": bodies},
            )
        },
        "/": {
            "get": _page("A page to try the model with."),
            "post": _page(
                "The same page, with what the model says to the pictures of its form.",
                *(408, 413, 415),
                requestBody={"required": True, "content": form},
            ),
        },
    }


def _page(summary: str, *refusals: int, **more: Any) -> Schema:
    """For a browser: what is wrong with the question is told on the page itself, before that as JSON."""
    page: Schema = {"text/html": {"schema": STRING}}
    security: list[Schema] = [{"token": []}, {"password": []}, {}]
    operation = _operation(summary, page, 401, *refusals, parameters=[VERSION], security=security, **more)
    for code in (400, 404, 413, 503):
        known = operation["responses"].setdefault(str(code), {"description": REFUSALS[code], "content": {}})
        known["content"] |= page
    return operation


def _protocol_paths() -> Schema:
    return {
        "/v2": {"get": _operation("The server: name, version, extensions.", _json(_ref("Server")), 401)},
        "/v2/health/live": {
            "get": _operation("Whether the server runs.", _json(_object({"live": {"const": True}})), security=[])
        },
        "/v2/health/ready": {"get": _health("Whether there is a version to serve.", _object({"ready": {"type": "boolean"}}))},
        "/v2/models/stats": {"get": _operation("What the served version did so far.", _json(_ref("Statistics")), 401, 503)},
        "/v2/repository/index": {
            "post": _operation(
                "Every version in the repository.",
                _json(_list(_ref("IndexEntry"))),
                *(400, 401, 413),
                requestBody={
                    "required": False,
                    "content": _json({"type": "object", "properties": {"ready": {"type": "boolean"}}}),
                },
            )
        },
    }


def _model_paths() -> Schema:
    """Each address of a model, with and without a version."""
    model = {"name": "model", "in": "path", "required": True, "schema": STRING}
    version = {"name": "version", "in": "path", "required": True, "schema": STRING | {"pattern": "^[1-9][0-9]*$"}}
    of_a_model: dict[str, tuple[str, str, Schema, Schema]] = {
        "": ("get", "Inputs, outputs and versions.", _json(_ref("Model")), {}),
        "/ready": ("get", "Whether it answers.", _json(_object({"name": STRING, "ready": {"const": True}})), {}),
        "/config": ("get", "Triton's model configuration.", _json({"type": "object", "required": ["name", "input"]}), {}),
        "/stats": ("get", "What it did so far.", _json(_ref("Statistics")), {}),
        "/infer": ("post", "Answers to tensors.", _json(_ref("InferResponse")) | _octets(), {"requestBody": _infer_body()}),
    }
    found: Schema = {}
    for prefix, parameters, missing in (
        ("/v2/models/{model}", [model], (404,)),
        ("/v2/models/{model}/versions/{version}", [model, version], (400, 404)),
    ):
        for suffix, (method, summary, answer, more) in of_a_model.items():
            codes = {*missing, 401, 503, *((400, 408, 413, 415) if method == "post" else ())}
            found[prefix + suffix] = {method: _operation(summary, answer, *sorted(codes), parameters=parameters, **more)}
    return found


def _octets() -> Schema:
    return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


def _infer_body() -> Schema:
    """JSON, or JSON and binary tensors behind it, whose border a header names."""
    return {"required": True, "content": _json(_ref("InferRequest")) | _octets()}


def _other_paths() -> Schema:
    health = _object({"status": STRING, "model": STRING, "version": {"type": ["string", "null"]}})
    return {
        "/health": {"get": _health("The same for people and simple probes.", health)},
        "/metrics": {"get": _operation("For Prometheus.", {"text/plain": {"schema": STRING}}, 401)},
        "/openapi.json": {"get": _operation("This document.", _json({"type": "object"}), security=[])},
        "/page.css": {"get": _operation("The page's style.", {"text/css": {"schema": STRING}}, security=[])},
        "/page.js": {"get": _operation("The page's script.", {"text/javascript": {"schema": STRING}}, security=[])},
    }


def _health(summary: str, schema: Schema) -> Schema:
    """The same document with 200 and, where there is nothing to serve, with 503."""
    operation = _operation(summary, _json(schema), security=[])
    operation["responses"]["503"] = {"description": "there is nothing to serve yet", "content": _json(schema)}
    return operation


def _schemas() -> dict[str, Schema]:
    label = _object({"label": STRING, "probability": PROBABILITY})
    name = STRING | {"maxLength": MAX_NAME, "description": "the file's name, where the form gave one"}
    found = _object(
        {"label": STRING, "probability": PROBABILITY, "top": {"type": "array", "items": label, "maxItems": TOP}}, image=name
    )
    tensor = _object({"name": STRING, "datatype": STRING, "shape": SHAPE})
    entry = _object({"name": STRING, "version": STRING, "state": {"enum": ["READY", "UNAVAILABLE"]}, "reason": STRING})
    return {
        "Error": _object({"error": STRING}),
        "Predictions": _object({"model": STRING, "version": STRING, "predictions": _list(_ref("Prediction"))}),
        "Prediction": {"oneOf": [found, _object({"error": STRING}, image=name)]},
        "Server": _object({"name": STRING, "version": STRING, "extensions": _list(STRING)}),
        "Model": _object(
            {"name": STRING, "versions": _list(STRING), "platform": STRING, "inputs": _list(tensor), "outputs": _list(tensor)}
        ),
        "IndexEntry": entry,
        "Statistics": _object({"model_stats": _list(_statistics())}),
        "InferRequest": _infer_request(),
        "InferResponse": _infer_response(),
    }


def _statistics() -> Schema:
    counts = _object({"count": COUNT, "ns": COUNT})
    return _object(
        {
            "name": STRING,
            "version": STRING,
            **dict.fromkeys(("last_inference", "inference_count", "execution_count"), COUNT),
            "inference_stats": {"type": "object", "additionalProperties": counts},
            "batch_stats": _list({"type": "object", "required": ["batch_size"]}),
        }
    )


def _infer_request() -> Schema:
    image = _object(
        {"name": {"const": INPUT}, "datatype": {"const": "UINT8"}, "shape": SHAPE},
        data={"type": "array", "description": "integers from 0 to 255, flat or nested as the shape"},
        parameters={"type": "object", "properties": {"binary_data_size": COUNT}},
    )
    output = {
        "type": "object",
        "properties": {"name": {"enum": list(OUTPUTS)}, "parameters": {"type": "object"}},
        "required": ["name"],
    }
    return {
        "type": "object",
        "properties": {
            "id": STRING,
            "inputs": {"type": "array", "items": image, "minItems": 1, "maxItems": 1},
            "outputs": _list(output),
            "parameters": {"type": "object", "properties": {"binary_data_output": {"type": "boolean"}}},
        },
        "required": ["inputs"],
    }


def _infer_response() -> Schema:
    output = _object(
        {"name": {"enum": list(OUTPUTS)}, "datatype": {"enum": ["FP32", "BYTES"]}, "shape": SHAPE},
        data={"type": "array"},
        parameters={"type": "object", "properties": {"binary_data_size": COUNT}},
    )
    return _object({"model_name": STRING, "model_version": STRING, "outputs": _list(output)}, id=STRING)
