"""Pages and JSON as responses: templates escape all values, and write numbers, times and foreign text in one way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from claimq_admin.escaping import safe
from claimq_admin.text import age, ahead_text, instant, option_texts, payload
from claimq_process.rounded import rounded
from claimq_web import payload as payloads

HERE = Path(__file__).parent
HEALTHY = PlainTextResponse("ok\n")
"""The process serves."""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "age": age,
        "ahead": ahead_text,
        "instant": instant,
        "count": _thousands,
        "rate": rate,
        "line": safe,
        "lines": payloads.visible,
        "options": option_texts,
        "payload": payload,
    }
    environment.filters.update(filters)
    return environment


def _thousands(number: float) -> str:
    return f"{number:,.0f}"


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The response with a page."""
    return HTMLResponse(_environment().get_template(template).render(**values), status)


def answer(document: Mapping[str, Any], status: int = 200) -> Response:
    """The answer of the API with this document."""
    return Response(json.dumps(document), status, media_type="application/json")


def no_queue(name: str) -> HTTPException:
    """The answer where there is no such queue, or the user may not see it. On a cluster both are read periodically."""
    text = f"there is no queue {name[:200]} here, or you may not use it; what is new is seen after up to 20 s"
    return HTTPException(404, text)


def rate(per_second: float) -> str:
    """A number of items per second, rounded."""
    return f"{rounded(per_second)}/s"
