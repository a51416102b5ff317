"""The OpenAPI document and the server say the same."""

import contextlib
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from claimq.blocking import BlockingQueue
from testkit.workers.sidecars import OpenStream, Sidecar

METHODS = {"get", "post", "put", "delete", "patch"}


@pytest.fixture
def document(shared_sidecar: Sidecar) -> Any:
    answer = shared_sidecar.ask("GET", "/v1/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == (files("claimq_sidecar.http") / "openapi.json").read_bytes()
    return answer.json


def check(document: Any, name: str, value: object) -> None:
    """Raises if the value is not what the schema of that name says."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)


def check_one_of(document: Any, content: Any, value: object) -> None:
    """Raises if the value is not what the one media type of a body in the document says."""
    (media_type,) = content["content"].values()
    schema = {**media_type["schema"], "components": document["components"]}
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)


def _schemas(value: Any) -> Iterator[str]:
    """The names of the schemas that are referred to anywhere in a part of the document."""
    yield from re.findall(r'"#/components/schemas/(\w+)"', json.dumps(value))


def test_every_schema_is_valid_and_every_reference_leads_somewhere(document: Any) -> None:
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert set(_schemas(document)) == set(schemas)


def test_the_paths_are_those_that_are_served(document: Any, shared_sidecar: Sidecar) -> None:
    missing = shared_sidecar.ask("GET", "/nothing").json["detail"]
    assert set(missing.partition("there are ")[2].split(", ")) == set(document["paths"])
    for path, operations in document["paths"].items():
        allowed = shared_sidecar.ask("PUT", path).headers["allow"].replace("HEAD", "").lower()
        assert {method for method in METHODS if method in allowed} == set(operations)


def test_every_field_of_a_request_is_known_to_the_server_and_no_other(
    document: Any, shared_sidecar: Sidecar
) -> None:
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        body = operations.get("post", {}).get("requestBody")
        if body is None:
            continue
        (form,) = (schemas[name] for name in _schemas(body))
        for name in (*form["properties"], "surely_unknown"):
            (problem,) = shared_sidecar.ask("POST", path, {name: {}}).json["errors"]
            is_unknown = problem["detail"].startswith("is unknown here")
            assert is_unknown is (name == "surely_unknown"), (path, problem)


def test_requests_and_replies_are_what_the_document_says(
    document: Any, sidecar: Sidecar, queue: BlockingQueue
) -> None:
    def post(path: str, body: object, status: int = 200) -> Any:
        operation = document["paths"][path]["post"]
        if status == 200:
            check_one_of(document, operation["requestBody"], body)
        answer = sidecar.ask("POST", path, body)
        assert answer.status == status
        check(document, next(_schemas(operation["responses"][str(status)])), answer.json)
        return answer.json

    new = [
        {"payload": {"a": 1}, "id": "one", "client": "ann"},
        {"text": "t"},
        {"payload_base64": "/w==", "delay": 0},
    ]
    post("/v1/enqueue", {"items": new})
    post("/v1/enqueue", {"items": new[:1]})
    claims = post("/v1/claim", {"max": 2, "wait": 0, "encoding": "auto"})["claims"]
    claims += post("/v1/claim", {"max": 1, "wait": 0, "encoding": "text"})["claims"]
    a, b, c = (claim["token"] for claim in claims)
    post("/v1/renew", {"tokens": [a, b, c, "w/99.aaaaaaaa"]})
    post("/v1/done", {"tokens": [a]})
    post("/v1/fail", {"tokens": [b], "error": "no", "permanent": True})
    post("/v1/requeue", {"tokens": [c], "delay": 5})
    post("/v1/unclaim", {"tokens": ["w/99.aaaaaaaa"]})
    others = {
        "fail": [{"token": "w/96.aaaaaaaa", "error": "no"}],
        "requeue": [{"token": "w/97.aaaaaaaa", "delay": 5}],
    }
    post(
        "/v1/verdicts",
        {
            "done": [{"token": "w/98.aaaaaaaa", "enqueue": [{"text": "next"}]}],
            "unclaim": [{"token": "w/99.aaaaaaaa"}],
            **others,
        },
    )
    post("/v1/next", {"done": [{"token": "w/98.aaaaaaaa"}], "max": 2, "wait": 0, "encoding": "base64"})
    post("/v1/next", {"session": "gone"}, 409)
    post("/v1/unclaim", {}, 400)
    post("/v1/claim", {"session": "gone"}, 409)
    session = sidecar.open_session({"tokens": ["w/99.aaaaaaaa"]})
    check(document, "Session", session.first)
    with contextlib.closing(OpenStream(sidecar.socket, {"tokens": ["w/99.aaaaaaaa"], "window": 5})) as stream:
        check(document, "Stream", stream.first)
        post("/v1/enqueue", {"items": [{"text": "t"}]})
        check(document, "Claims", stream.line())
        post("/v1/window", {"session": stream.id, "window": 0})
    post("/v1/window", {"session": "gone", "window": 1}, 409)
    check(document, "Info", sidecar.info)


def test_the_problems_of_the_outer_layer_are_problems_too(document: Any, shared_sidecar: Sidecar) -> None:
    for answer in (
        shared_sidecar.ask("GET", "/nothing"),
        shared_sidecar.ask("PUT", "/v1/claim"),
        shared_sidecar.ask("POST", "/v1/claim", b"{"),
    ):
        assert answer.headers["content-type"] == "application/problem+json"
        check(document, "Problem", answer.json)


@pytest.mark.parametrize("body", [b" ", b"\n", b"\r\n\t "])
@pytest.mark.parametrize("path", ["/v1/claim", "/v1/session", "/v1/stream"])
def test_a_body_of_spaces_is_no_empty_body(shared_sidecar: Sidecar, path: str, body: bytes) -> None:
    assert shared_sidecar.ask("POST", path, body).status == 400
