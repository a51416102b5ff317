"""An idle worker of many waits longer for a wake token, and gets an item at once."""

from __future__ import annotations

import asyncio

import claimq
from testkit.plugin import ProxyFactory
from testkit.queues.looking import texts
from testkit.servers.patient import patient
from testkit.servers.server import Server
from testkit.waiting import eventually


async def test_an_idle_worker_of_many_waits_longer_and_is_woken_at_once(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with claimq.connect(settings=patient(proxy.url)) as store:
        queue = store.queue("q")
        await queue.claim(wait=0)
        now = (await queue.snapshot()).now * 1000
        words = [word for number in range(659) for word in (str(now), f"other{number}")]
        valkey.call("ZADD", "cq:{q}:workers", *words)
        claiming = asyncio.ensure_future(queue.claim(wait=None))
        await eventually(
            lambda: [request.words[2] for request in proxy.requests if request.name == "BLPOP"] == [b"10.0"]
        )
        await queue.enqueue("x")
        assert texts(await claiming) == ["x"]
