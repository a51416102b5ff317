"""Writes http/openapi.json of the sidecar from the types of its requests and responses, and docs/api.md from that."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from claimq_sidecar.http import bodies, problems, responses
from claimq_sidecar.http.bodies import VERDICT_BODIES
from claimq_sidecar.http.field_types import PAYLOAD_FIELDS

ROOT = Path(__file__).parent.parent
FILE = ROOT / "worker_sidecar/src/claimq_sidecar/http/openapi.json"
PAGE = ROOT / "docs/api.md"
REFERENCE = "#/components/schemas/{name}"
PROBLEMS = {
    status: " ".join(
        f"{title} (`{kind}`)." for kind, (of_kind, title, _) in problems.KINDS.items() if of_kind == status
    )
    for status in sorted({status for status, *_ in problems.KINDS.values()})
}
"""By status: the kinds of problems that have it."""
OF_A_BODY = (400, 405, 408, 413, 429)


@dataclass(frozen=True)
class Operation:
    """One path. ``form``: the type of its request body; without one it needs no body."""

    path: str
    summary: str
    response: tuple[type, ...]
    problems: tuple[int, ...]
    form: type | None = None
    needs_body: bool = True
    description: str = ""
    when: str = "Done."
    media_type: str = "application/json"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2].partition(".")[0]


def _verdict(verb: str, summary: str, *more: int) -> Operation:
    return Operation(
        f"/v1/{verb}", summary, (responses.Outcomes,), (*OF_A_BODY, 503, *more), VERDICT_BODIES[verb]
    )


OPERATIONS = (
    Operation(
        "/v1/claim",
        "Claims up to max items",
        (responses.Claims,),
        (*OF_A_BODY, 409, 503),
        bodies.ClaimBody,
        needs_body=False,
        description="A claim returns at most as many items as the sidecar's concurrency leaves room for (see GET "
        "/v1/info). If there is no room, the claim waits in the order of arrival until an item in flight ends, is "
        "given back or expires, but no longer than it would wait for an item. Then it returns an empty list.",
    ),
    Operation(
        "/v1/next",
        "Ends claims, then claims up to max items",
        (responses.Next,),
        (*OF_A_BODY, 409, 422, 503, 507),
        bodies.NextBody,
        needs_body=False,
        description="As /v1/verdicts and then /v1/claim, with one request. If all verdicts are done, without items "
        "that follow, both are one atomic step and one round trip to the store. The claim is made whatever the "
        "outcomes are. Repeat the request when its response is lost or it was refused with 503: the verdicts are "
        "recognized, and what was claimed has gone back.",
    ),
    Operation(
        "/v1/verdicts",
        "Ends claims in different ways",
        (responses.Outcomes,),
        (*OF_A_BODY, 422, 503, 507),
        bodies.VerdictsBody,
        needs_body=False,
        description="Each verdict is a step of its own. If one of them is refused with 503, repeat the request: those "
        "that were applied are recognized.",
    ),
    _verdict("done", "Ends claims whose work is finished"),
    _verdict("fail", "Ends claims whose work failed, with the reason"),
    _verdict("requeue", "Puts items at the tail of the queue, or delays them"),
    _verdict("later", "Delays items, without counting an attempt or a failure"),
    _verdict("unclaim", "Puts items back at the head of the queue, uncounted"),
    _verdict("renew", "Extends leases"),
    Operation(
        "/v1/enqueue",
        "Adds items to the queue",
        (responses.Enqueued,),
        (*OF_A_BODY, 422, 503, 507),
        bodies.EnqueueBody,
    ),
    Operation(
        "/v1/session",
        "Opens a session: its claims are renewed while this connection is open and given back when it closes",
        (responses.Session, responses.Draining),
        OF_A_BODY,
        bodies.SessionBody,
        needs_body=False,
        when="A stream of JSON lines: first the session, then a line when a drain begins or ends and one at least "
        "every ten seconds.",
        media_type="application/x-ndjson",
    ),
    Operation(
        "/v1/stream",
        "Opens a session whose response also delivers items: at most window of them without a verdict",
        (responses.Stream, responses.Claims, responses.Draining),
        OF_A_BODY,
        bodies.StreamBody,
        needs_body=False,
        description="All claims that name the session count in the window, also those that it has taken over. Send the "
        "verdicts on another connection, for instance in batches with /v1/verdicts. Read continuously: a client that "
        "reads nothing for a minute is disconnected.",
        when="A stream of JSON lines: first the session, then a line for items that were claimed together, one when a "
        "drain begins or ends, and one at least every ten seconds.",
        media_type="application/x-ndjson",
    ),
    Operation(
        "/v1/window",
        "Changes the window of a stream",
        (responses.Window,),
        (*OF_A_BODY, 409),
        bodies.WindowBody,
        description="With 0 the stream delivers nothing more, and its session stays open. Of the tokens in the "
        "response, return with /v1/unclaim those on which no work has begun, also those that were not read yet.",
    ),
    Operation(
        "/v1/prestop",
        "For the app's own preStop hook: claims nothing more, and answers when no claim is in flight or the drain "
        "timeout is over",
        (responses.InFlight,),
        (405, 429),
        description="SIGTERM may follow. If only the app restarts, claiming resumes five seconds later. Needs no body.",
        when="No claim is in flight, or the drain timeout is over.",
    ),
    Operation(
        "/v1/info", "The state and the settings of the sidecar", (responses.Info,), (405,), when="Now."
    ),
    Operation("/v1/openapi.json", "The OpenAPI document of this API", (), (405,), when="OpenAPI 3.1."),
)
GET = {"/v1/info", "/v1/openapi.json"}


def document() -> dict[str, Any]:
    """The whole document."""
    types = {form for operation in OPERATIONS for form in (operation.form, *operation.response) if form}
    listed = sorted(types | {problems.Problem}, key=lambda one: one.__name__)
    _, schemas = msgspec.json.schema_components(listed, ref_template=REFERENCE)
    schemas["ItemBody"]["oneOf"] = [{"required": [name]} for name in PAYLOAD_FIELDS]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "claimq sidecar",
            "version": "1",
            "description": "Items of one queue for the app beside the sidecar, over a Unix socket.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://claimq", "description": "On the Unix socket; any host name will do."}],
        "paths": {one.path: {"get" if one.path in GET else "post": _operation(one)} for one in OPERATIONS},
        "components": {"schemas": json.loads(json.dumps(dict(sorted(schemas.items()))), object_hook=_tidy)},
    }


def _operation(operation: Operation) -> dict[str, Any]:
    whole: dict[str, Any] = {"summary": operation.summary}
    if operation.description:
        whole["description"] = operation.description
    if operation.form:
        content = {"application/json": {"schema": _one_of((operation.form,))}}
        whole["requestBody"] = {"content": content, "required": operation.needs_body}
    schema = _one_of(operation.response) if operation.response else {"type": "object"}
    answers = {"200": {"description": operation.when, "content": {operation.media_type: {"schema": schema}}}}
    for status in sorted(operation.problems):
        content = {"application/problem+json": {"schema": _one_of((problems.Problem,))}}
        answers[str(status)] = {"description": PROBLEMS[status], "content": content}
    return whole | {"responses": answers}


def _one_of(types: tuple[type, ...]) -> dict[str, Any]:
    references = [{"$ref": REFERENCE.format(name=one.__name__)} for one in types]
    return references[0] if len(references) == 1 else {"oneOf": references}


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """An object in a schema as OpenAPI's readers expect it, where msgspec writes it for Python."""
    if isinstance(schema.get("title"), str):
        del schema["title"]
    if isinstance(schema.get("description"), str):
        schema["description"] = (
            inspect.cleandoc(schema["description"]).replace("\n\n", " ").replace("\n", " ")
        )
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$")
    if schema.get("multipleOf") == 1:
        del schema["multipleOf"]
        schema["type"] = "integer"
    if schema.get("default", ...) is None:
        del schema["default"]
    return schema


def openapi_text() -> str:
    """The file's whole text."""
    return json.dumps(document(), indent=2) + "\n"


BOUNDS = (
    ("minimum", "maximum", " from {:,} to {:,.0f}"),
    ("minItems", "maxItems", " ({:,} to {:,} elements)"),
    ("minLength", "maxLength", " of {:,} to {:,} characters"),
)
PAGE_TEXT = """# The sidecar's API

All requests that an app can send to its sidecar's Unix socket, and their bodies. What they mean, with examples, is in
[the sidecar](sidecar.md); the [health port](sidecar.md#the-health-port) is not part of this API.

This page is generated from the OpenAPI document, by `python scripts/make_openapi.py`. The sidecar serves the
document at `GET /v1/openapi.json`, for programs that generate clients.

## Requests

| request | what it does | request body | response body (200) | other status codes |
|---|---|---|---|---|
{requests}
## Status codes

Every response other than 200 has a [Problem](#problem) as its body. Its `type` is `urn:claimq:problem:` and one of
these words; its `detail` says what to do, and `Retry-After` when. Limits: 10 s and 16 KiB with 100 fields for the head,
60 s, `CLAIMQ_MAX_BODY` and 300,000 JSON values and fields for the body, 1,024 connections.

| status | meaning |
|---|---|
{statuses}
## Bodies
{bodies}"""


def page_text() -> str:
    """The text of docs/api.md."""
    whole = document()
    requests = [
        _request_row(f"{method.upper()} {path}", operation)
        for path, methods in whole["paths"].items()
        for method, operation in methods.items()
    ]
    statuses = [f"| {status} | {meaning} |\n" for status, meaning in PROBLEMS.items()]
    bodies = [_schema_section(name, schema) for name, schema in whole["components"]["schemas"].items()]
    return PAGE_TEXT.format(requests="".join(requests), statuses="".join(statuses), bodies="".join(bodies))


def _request_row(request: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody")
    needs = "none" if body is None else _type_of_content(body) + ("" if body["required"] else ", or none")
    answers = dict(operation["responses"])
    answer = answers.pop("200")
    purpose = ". ".join(filter(None, (operation["summary"], operation.get("description"))))
    response = _type_of_content(answer)
    if " " in answer["description"]:  # more than "Done."
        response += f". {answer['description']}"
    return f"| `{request}` | {purpose} | {needs} | {response} | {', '.join(answers)} |\n"


def _type_of_content(body: dict[str, Any]) -> str:
    (content,) = body["content"].values()
    return _type(content["schema"])


def _schema_section(name: str, schema: dict[str, Any]) -> str:
    rows = "".join(
        f"| `{field}` | {_type(one)} | {_need(field, one, schema)} | {_description(one)} |\n"
        for field, one in schema["properties"].items()
    )
    head = "| field | type | required or default | meaning |\n|---|---|---|---|\n"
    return f"\n### {name}\n\n{schema['description']}\n\n{head}{rows}"


def _need(field: str, schema: dict[str, Any], parent: dict[str, Any]) -> str:
    if field in parent["required"]:
        return "required"
    return f"default `{json.dumps(schema['default'])}`" if "default" in schema else "optional"


def _description(schema: dict[str, Any]) -> str:
    found = [one["description"] for one in (schema, *schema.get("anyOf", ())) if "description" in one]
    return " ".join(found)


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words: its type and its bounds, or a link to its section."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(_type, choices))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("maxItems") == 0:
        return "empty array"
    kind = (
        f"array of {_type(schema['items'])}" if schema.get("type") == "array" else schema.get("type", "any")
    )
    for least, most, bounds in BOUNDS:
        if most in schema:
            kind += bounds.format(schema.get(least, 0), schema[most])
    return (
        kind.replace("1 to 1 elements", "exactly 1 element")
        .replace(" of 0 to ", " of up to ")
        .replace("(0 to ", "(up to ")
    )


if __name__ == "__main__":
    FILE.write_text(openapi_text())
    PAGE.write_text(page_text())
