"""An idle worker of many waits longer for a wake token, and gets an item at once."""

from __future__ import annotations

import asyncio

import claimq
from claimq.redis_store.scripts import script
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


async def test_an_idle_loop_asks_once_for_each_wait(valkey: Server, start_proxy: ProxyFactory) -> None:
    proxy = start_proxy(valkey)
    claim = script("claim").sha.encode()

    def requests() -> list[str]:
        """The waits and claims from the first wait on."""
        names = [
            request.name
            for request in proxy.requests
            if request.name == "BLPOP" or (request.name == "EVALSHA" and request.words[1] == claim)
        ]
        return names[names.index("BLPOP") :] if "BLPOP" in names else []

    async with claimq.connect(settings=patient(proxy.url)) as store:
        queue, stop, items = store.queue("q"), asyncio.Event(), list[claimq.Item]()
        await queue.claim(wait=0)
        later = ((await queue.snapshot()).now + 300) * 1000
        words = [word for number in range(1_000) for word in (str(later), f"other{number}")]
        valkey.call("ZADD", "cq:{q}:workers", *words)
        consuming = asyncio.ensure_future(queue.consume(items.append, stop=stop))
        await eventually(lambda: requests().count("BLPOP") == 2)
        assert requests() == ["BLPOP", "EVALSHA", "BLPOP"]
        stop.set()
        await consuming
