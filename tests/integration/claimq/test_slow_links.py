"""Over a slow link a call ends by silence, not by how long its bytes take; a claim that fails is made smaller."""

import asyncio

import pytest

import claimq
from claimq import NotReplicated, Policy, RedisSettings, StoreUnavailable
from claimq.internals.operations import internals
from testkit.plugin import ProxyFactory
from testkit.servers.cluster import RedisCluster
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import eventually

SLOW = 200_000
"""Bytes a second: the largest claim and the largest enqueue take more than the timeout."""
LARGE = b"x" * 1_000_000
"""One at a third of that speed, or two at half of it, take more than one and a half times the timeout."""


def settings(url: str, *, reply_timeout: float, retry_for: float = 4.0) -> RedisSettings:
    return RedisSettings(url, reply_timeout=reply_timeout, retry_for=retry_for)


async def test_large_items_come_and_go_over_a_slow_link(valkey: Server, start_proxy: ProxyFactory) -> None:
    proxy = start_proxy(valkey)
    async with claimq.connect(settings=settings(proxy.url, reply_timeout=11.0)) as store:
        queue = store.queue("q", worker="w")
        proxy.narrow(SLOW)
        await queue.enqueue_many([bytes([65 + number]) * 1_000_000 for number in range(3)])
        claims = await queue.claim(100, wait=0)
        proxy.heal()
        assert [claim.item.payload[:1] for claim in claims] == [b"A", b"B", b"C"]
        assert (await queue.stats())["claimed"] == 3  # at the first attempt


async def test_large_items_of_a_durable_queue_come_over_a_slow_link(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with claimq.connect(settings=settings(proxy.url, reply_timeout=11.0)) as store:
        queue = store.queue("q")
        await queue.set_policy(Policy(durability="replicated"))
        with pytest.raises(NotReplicated):  # there is no replica, and from now on each enqueue waits for one
            await queue.enqueue("small")
        proxy.narrow(SLOW / 2)
        with pytest.raises(NotReplicated):
            await queue.enqueue_many([LARGE, LARGE])
        assert await queue.length() == 3


async def test_a_large_item_of_a_cluster_is_claimed_over_a_slow_link(start_proxy: ProxyFactory) -> None:
    with RedisCluster(nodes=1) as cluster:
        (node,) = cluster.nodes
        proxy = start_proxy(node)
        node.call("CONFIG", "SET", "cluster-announce-port", proxy.port)
        url = f"redis+cluster://127.0.0.1:{proxy.port}"
        async with claimq.connect(settings=settings(url, reply_timeout=11.0)) as store:
            queue = store.queue("q")
            await queue.enqueue(LARGE)
            proxy.narrow(SLOW / 3)
            (claim,) = await queue.claim(wait=0)
            proxy.heal()
            assert claim.item.payload == LARGE
            assert (await queue.stats())["claimed"] == 1  # at the first attempt


async def test_a_silent_link_still_ends_a_call_in_time(valkey: Server, start_proxy: ProxyFactory) -> None:
    proxy = start_proxy(valkey)
    async with claimq.connect(settings=settings(proxy.url, reply_timeout=11.0, retry_for=0.3)) as store:
        queue = store.queue("q", worker="w")
        await queue.enqueue(b"x")
        proxy.black_hole("replies")
        with pytest.raises(StoreUnavailable):
            await queue.claim(wait=0)
        proxy.heal()
        proxy.cut()


async def test_a_claim_that_did_not_get_through_is_followed_by_smaller_ones(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url, worker="w", retry_for=0.1) as queue:
        await queue.enqueue_many([b"%d" % number for number in range(40)])
        for _ in range(2):
            lost = proxy.drop_reply(cut=False)
            claiming = asyncio.ensure_future(queue.claim(32, wait=0))
            await eventually(lambda lost=lost: lost.hit)  # type: ignore[misc]  # mypy does not infer a lambda with defaults
            proxy.refuse()
            with pytest.raises(StoreUnavailable):
                await claiming
            proxy.heal()
            await internals(queue).lost_claims_recovered()
        sizes = [len(await queue.claim(32, wait=0)) for _ in range(4)]
        assert sizes == [2, 4, 8, 16]
        assert await queue.length() == 10
