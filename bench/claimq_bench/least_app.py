"""The least that a sidecar in Python does for one item: an HTTP exchange by uvicorn, and one call of the library.

``uvicorn --uds PATH claimq_bench.least_app:app`` with CLAIMQ_REDIS_URL answers the loop of ``claimq.worker`` over
single items, of one client. It claims nothing, and has no leases, slots, limits, or metrics.
"""

import os
from base64 import b64encode
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import claimq
from claimq import ReliableQueue

QUEUE = "least"
PAYLOAD = b"x" * 100
_TIMES = b'"enqueued_at":0.0,"first_enqueued_at":0.0,"claimed_at":0.0,"lease_until":0.0'
_COUNTS = b'"requeue_count":0,"fail_count":0,"crash_count":0,"interrupted_count":0'
_ITEM = b'"id":"i","client":null,%s,%s,"payload_base64":"%s"' % (_COUNTS, _TIMES, b64encode(PAYLOAD))
_REPLY = (
    b'{"claims":[{"token":"%%d",%s}],"draining":false,"outcomes":[{"token":"%%d","outcome":"done","id":"i"}]}\n'
    % _ITEM
)
_SESSION = b'{"session":"s","queue":"least","worker":"least","busy_expiry":30.0,"draining":false}\n'
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_queues: list[ReliableQueue] = []
_numbers = count(1)  # of the tokens: each request ends the claim of the one before


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """Answers a session, which stays open, or anything else with an item, after one call of the library."""
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/v1/session":
        await _start(send, [])
        await send({"type": "http.response.body", "body": _SESSION, "more_body": True})
        await receive()  # until the client ends it
        return
    if not _queues:
        _queues.append(claimq.connect(os.environ["CLAIMQ_REDIS_URL"]).queue(QUEUE))
    await _queues[0].enqueue(PAYLOAD)
    number = next(_numbers)
    reply = _REPLY % (number, number - 1)
    await _start(send, [(b"content-length", b"%d" % len(reply))])
    await send({"type": "http.response.body", "body": reply})


async def _start(send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})
