"""A connection that is closed leaves nothing behind on the server, unless a call of its may still arrive there."""

import asyncio
from typing import Any

import pytest

import claimq
from claimq import StoreUnavailable
from claimq.redis_store import connection
from testkit.plugin import ProxyFactory
from testkit.queues import roles
from testkit.servers.patient import open_queue, open_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually


def kept(server: Server) -> list[Any]:
    found: Any = server.call("KEYS", "*:calls:*")
    return sorted(found)


@pytest.mark.parametrize("queues", [3, 60])
async def test_a_closed_connection_removes_the_replies_that_were_kept_for_it(
    valkey: Server, queues: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_FORGET_SECONDS", PATIENCE)
    async with open_server(valkey.url) as server:
        for number in range(queues):
            await server.queue(f"q{number}").enqueue("x")
        await server.queue("q0").claim()
        assert len(kept(valkey)) == queues
    assert kept(valkey) == []


async def test_a_shared_client_leaves_none_either(valkey: Server) -> None:
    async with open_server(valkey.url) as first:
        shared = first._connection.client("calls")._client
        async with claimq.connect(client=shared) as server:
            await server.queue("a").enqueue("x")
            assert len(kept(valkey)) == 1
        assert kept(valkey) == []


async def test_a_connection_without_calls_sends_nothing_at_its_end(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url, "a") as queue:
        await queue.length()
        before = proxy.count("PEXPIRE")
    assert proxy.count("PEXPIRE") == before


@pytest.mark.parametrize("role", ["producer", "worker"])
async def test_every_role_may_remove_them(valkey: Server, role: str) -> None:
    roles.give(valkey, role, roles.documented(role))
    async with claimq.connect(roles.url(valkey, role)) as server:
        await server.queue(roles.QUEUE).enqueue("x")
        assert len(kept(valkey)) == 1
    assert kept(valkey) == []


async def test_after_a_fault_the_replies_stay_since_a_call_may_still_arrive(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_server(proxy.url) as server:
        await server.queue("a").length()
        proxy.drop_reply()
        assert (await server.queue("a").enqueue("x")).length == 1
    assert len(kept(valkey)) == 1


async def test_a_server_that_does_not_answer_holds_the_end_up_for_a_second_at_most(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    server = open_server(proxy.url, reply_timeout=600)
    await server.queue("a").enqueue("x")
    proxy.black_hole()
    await server.close()  # pytest's own time-out is below that of a reply
    with pytest.raises(StoreUnavailable):
        await server.ping()


async def test_a_call_is_refused_from_the_moment_at_which_the_replies_are_removed(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    server = open_server(proxy.url)
    queue = server.queue("a")
    await queue.enqueue("x")
    removal = proxy.drop_reply(matching=lambda request: request.name == "PEXPIRE", cut=False)
    closing = asyncio.ensure_future(server.close())
    await eventually(lambda: removal.hit is not None)
    with pytest.raises(StoreUnavailable, match="closed"):
        await queue.enqueue("y")
    await closing
    assert kept(valkey) == []


async def test_a_closing_that_is_cancelled_while_it_waits_closes_all_the_same(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    server = open_server(proxy.url)
    queue = server.queue("a")
    await queue.enqueue("x")
    before = proxy.count("EVALSHA")
    proxy.black_hole("replies")
    claiming = asyncio.ensure_future(queue.claim())
    await eventually(lambda: proxy.count("EVALSHA") > before)
    claiming.cancel()
    closing = asyncio.ensure_future(server.close())
    done, _ = await asyncio.wait({closing}, timeout=0.1)
    assert not done  # it waits for the recovery of the claim
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(StoreUnavailable, match="closed"):
        await server.ping()
    assert asyncio.all_tasks() == {asyncio.current_task()}
