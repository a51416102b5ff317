"""Requests that schemathesis makes from the OpenAPI document, sent to the real socket: the server accepts what the
document allows, refuses what it forbids, and every reply is as described."""

import contextlib
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, settings
from schemathesis.checks import not_a_server_error  # pyright: ignore[reportUnknownVariableType] - Case has no argument there
from schemathesis.specs.openapi import checks

from testkit.servers.server import Server
from testkit.workers.sidecars import Sidecar, UnixConnection

DOCUMENT: dict[str, Any] = json.loads((files("claimq_sidecar.http") / "openapi.json").read_bytes())
OF_REPLIES: list[Any] = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
OF_DECISIONS: list[Any] = [checks.negative_data_rejection, checks.positive_data_acceptance]
"""With those above, all that look at one reply; the others make requests of their own, by the host's name."""
schema: Any = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Sidecar]:
    """A sidecar for these tests alone: one of their requests begins a drain."""
    with Server("valkey") as store, Sidecar(store.url, drain_timeout="100ms") as sidecar:
        yield sidecar
        assert "event=defect" not in sidecar.log_text


@schema.parametrize()  # type: ignore[untyped-decorator]  # as schemathesis has it
@settings(
    max_examples=12,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
        HealthCheck.large_base_example,
        HealthCheck.too_slow,
    ],
)
def test_the_server_does_what_the_document_says(case: schemathesis.Case[Any], fuzzed: Sidecar) -> None:
    assume(not repeats_a_token(case.body))
    reply = answer(fuzzed, case)
    too_large = reply.status_code == 413  # refused for its size before its fields are read
    case.validate_response(reply, checks=OF_REPLIES if too_large else OF_REPLIES + OF_DECISIONS)


def repeats_a_token(body: Any) -> bool:
    """Whether two entries of lists in it have the same token: the document forbids it in words, JSON Schema cannot."""
    values: list[Any] = list(body.values()) if isinstance(body, dict) else []  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - likewise
    entries = [entry for value in values if isinstance(value, list) for entry in value]  # pyright: ignore[reportUnknownVariableType] - a list of anything
    tokens: list[Any] = [entry.get("token") for entry in entries if isinstance(entry, dict)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - likewise
    named = [token for token in tokens if token is not None]
    return any(token in named[:index] for index, token in enumerate(named))


def answer(sidecar: Sidecar, case: schemathesis.Case[Any]) -> schemathesis.Response:
    """The reply to a case; of a session's stream its first line."""
    request = requests.Request(**case.as_transport_kwargs(base_url="http://claimq")).prepare()
    with contextlib.closing(UnixConnection(sidecar.socket)) as connection:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        connection.request(str(request.method), request.path_url, without_wait(request.body), headers)
        reply = connection.getresponse()
        received = {name.lower(): [value] for name, value in reply.getheaders()}
        body = reply.readline() if "ndjson" in received["content-type"][0] else reply.read()
    return schemathesis.Response(reply.status, received, body, request, elapsed=0.0, verify=False)


def without_wait(body: Any) -> Any:
    """A claim that waits for nothing: the queue may be empty, and a wait may last 300 seconds."""
    try:
        value = json.loads(body)
        is_valid = type(value["wait"]) in (int, float) and 0 <= value["wait"] <= 300
    except (ValueError, TypeError, KeyError):
        return body
    return json.dumps({**value, "wait": 0}).encode() if is_valid else body
