"""Reads the bodies of requests: forms, and the token that only forms of the page itself have."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from claimq_web.users.login import Session

Form = Mapping[str, str]
_FORM_SECONDS = 5.0
_MOST_FIELDS = 20


async def checked_form(request: Request) -> tuple[Session, Form]:
    """The session of a request and the fields of its form, which must have the token of the session."""
    session: Session | None = request.state.session
    form = await read_form(request)
    if session is None or not (  # no other site can send the token of a request to the API
        request.state.is_api
        or secrets.compare_digest(form.get("form_token", "").encode(), session.form_token.encode())
    ):
        raise HTTPException(403, "this form is out of date; open the page again")
    return session, form


async def read_form(request: Request) -> Form:
    """The fields of a form, whose size was checked before."""
    body = await read_body(request, _FORM_SECONDS)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "the form cannot be read") from None
    return fields_once(pairs)


def fields_once(pairs: Iterable[tuple[str, str]]) -> Form:
    """The fields of a form or a query. Answers with status 400 to one that is given twice: one of two filters would
    not count, and more items would pass."""
    fields: dict[str, str] = {}
    for name, text in pairs:
        if name in fields:
            raise HTTPException(400, f"{name[:100]!r} is given twice; give it once")
        fields[name] = text
    return fields


async def read_body(request: Request, seconds: float, arrived: Callable[[int], None] | None = None) -> bytes:
    """The body of a request. Answers with status 408 if it does not arrive within so many seconds. ``arrived``: is
    called with the size of each part."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if arrived is not None:
                    arrived(len(part))
            return bytes(body)
    except TimeoutError:
        raise HTTPException(408, "the body of the request did not arrive in time") from None
    except ClientDisconnect:  # as an error of the app, the server would log it with its traceback
        raise HTTPException(400, "the connection broke before the end of the body") from None
