"""A caller's own client, with a defect that can be switched on."""

from typing import Any

import redis.asyncio

from testkit.waiting import PATIENCE


class FaultyClient:
    """Passes everything on to a `redis.asyncio.Redis` until `is_broken` is set."""

    def __init__(self, url: str) -> None:
        self.client: Any = redis.asyncio.Redis.from_url(url, socket_timeout=PATIENCE)
        self.is_broken = False

    def __getattr__(self, name: str) -> Any:
        if self.is_broken:
            raise KeyError("a defect of the caller's client")
        return getattr(self.client, name)
