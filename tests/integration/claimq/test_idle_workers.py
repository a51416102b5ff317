"""An idle worker of many waits longer for a wake token, and gets an item at once."""

from __future__ import annotations

import asyncio

import claimq
import claimq.worker
from claimq.redis_store.scripts import script
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ProxyFactory
from testkit.queues.looking import texts
from testkit.servers.patient import open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import eventually
from testkit.workers.sidecars import Sidecar


async def test_an_idle_worker_of_many_waits_longer_and_is_woken_at_once(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url) as queue:
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


def waits_and_claims(proxy: FaultProxy) -> list[str]:
    """The requests from the first wait on."""
    claim = script("claim").sha.encode()
    names = [
        request.name
        for request in proxy.requests
        if request.name == "BLPOP" or (request.name == "EVALSHA" and request.words[1] == claim)
    ]
    return names[names.index("BLPOP") :] if "BLPOP" in names else []


async def begin_with_1000_workers(store: claimq.Server, valkey: Server) -> claimq.ReliableQueue:
    """A queue with so many workers that each waits as long as it may."""
    queue = store.queue("q")
    await queue.claim(wait=0)
    later = ((await queue.snapshot()).now + 300) * 1000
    words = [word for number in range(1_000) for word in (str(later), f"other{number}")]
    valkey.call("ZADD", "cq:{q}:workers", *words)
    return queue


async def test_an_idle_loop_asks_once_for_each_wait(valkey: Server, start_proxy: ProxyFactory) -> None:
    proxy = start_proxy(valkey)
    async with open_server(proxy.url) as store:
        queue, stop = await begin_with_1000_workers(store, valkey), asyncio.Event()
        consuming = asyncio.ensure_future(queue.consume(list[claimq.Item]().append, stop=stop))
        await eventually(lambda: waits_and_claims(proxy).count("BLPOP") == 2)
        assert waits_and_claims(proxy) == ["BLPOP", "EVALSHA", "BLPOP"]
        stop.set()
        await consuming


async def test_an_idle_loop_of_the_worker_client_asks_once_for_each_wait(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_server(valkey.url) as store:
        queue = await begin_with_1000_workers(store, valkey)
        with Sidecar(proxy.url) as sidecar:
            async with claimq.worker.connect_async(sidecar.socket) as worker:
                items = worker.items(wait=0.5)
                next_item = asyncio.ensure_future(anext(items))
                await eventually(lambda: waits_and_claims(proxy).count("BLPOP") == 11)
                # A pause of this machine in which a wait begins late adds a claim.
                assert waits_and_claims(proxy)[:21].count("EVALSHA") <= 12
                await queue.enqueue("x")
                async with await next_item as item:
                    assert item.payload == b"x"
                await items.aclose()


async def test_an_idle_stream_asks_once_for_each_wait(valkey: Server, start_proxy: ProxyFactory) -> None:
    proxy = start_proxy(valkey)
    async with open_server(valkey.url) as store:
        queue = await begin_with_1000_workers(store, valkey)
        with Sidecar(proxy.url) as sidecar:
            stream = sidecar.open_stream()
            await eventually(lambda: waits_and_claims(proxy).count("BLPOP") == 2)
            assert waits_and_claims(proxy) == ["BLPOP", "EVALSHA", "BLPOP"]
            await queue.enqueue("x")
            assert [claim["text"] for claim in await asyncio.to_thread(stream.items, 1)] == ["x"]
