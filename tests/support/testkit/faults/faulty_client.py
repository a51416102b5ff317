"""A caller's own client, with a defect that can be switched on."""

from typing import Any

import redis.asyncio

from testkit.waiting import PATIENCE


class FaultyClient:
    """Passes everything on to a `redis.asyncio.Redis` until `is_broken` is set; then it raises `error`."""

    def __init__(self, url: str, error: Exception | None = None) -> None:
        self.client: Any = redis.asyncio.Redis.from_url(url, socket_timeout=PATIENCE)
        self.error = error or KeyError("a defect of the caller's client")
        self.is_broken = False
        self.failures = 0

    def __getattr__(self, name: str) -> Any:
        if self.is_broken:
            self.failures += 1
            raise self.error
        return getattr(self.client, name)
