"""The end of a presence, on a server that does not answer."""

import asyncio
import threading
from typing import Any

import pytest

from claimq import RedisSettings
from claimq.redis_store import presence
from claimq.redis_store.presence import Presence
from testkit.waiting import eventually

PAUSE = 5 * presence._FIRST_PAUSE
"""Seconds that a client takes to close: longer than the pause between two cancellations."""


class Client:
    """A client whose connections never get an answer. It is its own pool and connection."""

    def __init__(self) -> None:
        self.connection_pool = self
        self.is_connecting = threading.Event()
        self.is_closed = False

    def make_connection(self) -> "Client":
        return self

    async def connect(self) -> None:
        self.is_connecting.set()
        await asyncio.Event().wait()

    async def disconnect(self, *, nowait: bool) -> None:
        pass

    async def aclose(self) -> None:
        await asyncio.sleep(PAUSE)
        self.is_closed = True


async def test_repeated_cancellations_leave_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    def make_client(*_: object, **__: object) -> Any:
        return client

    monkeypatch.setattr(presence, "make_client", make_client)
    mine = Presence(RedisSettings(), "cq:{q}:main", "instance", "w1")
    mine.begin()
    await eventually(client.is_connecting.is_set)
    await mine.end()
    await eventually(lambda: not any(one.name == "claimq-presence" for one in threading.enumerate()))
    assert client.is_closed


async def test_a_presence_may_end_before_it_has_begun() -> None:
    mine = Presence(RedisSettings(), "cq:{q}:main", "instance", "w1")
    mine._stop.set()
    mine._loop = asyncio.new_event_loop()
    await asyncio.to_thread(mine._run)
    assert mine._client is None
