"""Reads bodies of requests before they take a slot, and bounds the bytes of all of them together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.requests import Request

from claimq_web.users.forms import read_body
from claimq_web.users.limits import TooManyRequests
from claimq_web.users.login import group_of


@dataclass(slots=True, eq=False)
class _Body:
    """The part of a body that has arrived. ``end``: ends its request when it is rescheduled."""

    group: str
    end: asyncio.Timeout
    size: int = 0


class Bodies:
    """Bodies of requests that have no slot yet: a client that sends none must not take one.

    Over the bound, the users of the namespace with the most bytes lose their largest body.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bodies: set[_Body] = set()

    @asynccontextmanager
    async def one(self, request: Request, user: str, seconds: float) -> AsyncGenerator[bytes]:
        """The body of a request, which must arrive within so many seconds. Inside the block, wait for the slot; then
        leave it. Raises TooManyRequests if others need the room before.
        """
        end = asyncio.timeout(None)
        body = _Body(group_of(user), end)
        try:
            async with end:
                self._bodies.add(body)
                try:
                    yield await read_body(request, seconds, lambda count: self._add(body, count))
                finally:
                    self._bodies.discard(body)
        except TimeoutError:
            if not end.expired():
                raise
            raise TooManyRequests("requests of others need the memory; send it again in a second") from None

    def _add(self, body: _Body, count: int) -> None:
        body.size += count
        sizes = Counter[str]()
        for one in self._bodies:
            sizes[one.group] += one.size
        while sizes.total() > self._most_bytes:
            [(group, _)] = sizes.most_common(1)
            largest = max((body for body in self._bodies if body.group == group), key=lambda body: body.size)
            self._bodies.discard(largest)
            sizes[group] -= largest.size
            largest.end.reschedule(asyncio.get_running_loop().time())
