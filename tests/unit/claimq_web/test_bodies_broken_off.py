"""Bodies whose client breaks the connection."""

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from claimq_web.users.forms import read_body


async def test_a_body_that_its_client_breaks_off_is_a_refused_request() -> None:
    """Any other error is logged as a defect, with its traceback, as often as clients want."""
    arriving: list[Message] = [
        {"type": "http.request", "body": b'{"items', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return arriving.pop(0)

    with pytest.raises(HTTPException, match="broke before the end of the body") as raised:
        await read_body(Request({"type": "http"}, receive), 60)
    assert raised.value.status_code == 400
