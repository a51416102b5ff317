"""A process that consumes is present: killed it loses its claims at once; stopped, blocked or cut off it keeps them."""

import asyncio
import logging
import sys
import threading

import pytest
import redis.asyncio

import claimq
from claimq import Item, Policy, ReliableQueue
from claimq.redis_store import connection, presence
from claimq.redis_store.presence import Presence
from testkit.programs.processes import Process
from testkit.queues.clock import move_clock
from testkit.servers.patient import open_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually, eventually_sync
from testkit.workers.handlers import Seen

PRESENT = "cq:{q}:present"
CONSUMER = """
import asyncio, sys, claimq

async def consume():
    async with claimq.connect(sys.argv[1]) as server:
        await server.queue("q").consume(lambda item: asyncio.sleep(3600))

asyncio.run(consume())
"""


def announced(server: Server) -> bool:
    return server.call("ZCARD", PRESENT) == 1


def subscriptions(server: Server) -> int:
    channels = server.call("PUBSUB", "CHANNELS", "cq:*")
    assert isinstance(channels, list)
    return len(channels)


async def test_a_stopped_process_keeps_its_claim_and_a_killed_one_loses_it(
    valkey: Server, queue: ReliableQueue
) -> None:
    await queue.set_policy(Policy(busy_expiry=3600))
    await queue.enqueue("a")
    with Process([sys.executable, "-c", CONSUMER, valkey.url]) as process:
        await eventually(lambda: announced(valkey))
        await eventually(lambda: queue.length("busy"))
        process.sigstop()
        for _ in range(5):
            await move_clock(queue, 4.0)
            assert (await queue.reap()).expired == ()
        process.sigcont()
        process.kill9()

        async def reaped() -> bool:
            await move_clock(queue, 1.0)
            return len((await queue.reap()).expired) == 1

        await eventually(reaped)
    (item,) = await queue.peek()
    assert "is gone: its connection closed" in (item.last_error or "")


async def test_a_process_whose_loop_is_blocked_connects_again_after_a_cut(
    valkey: Server, queue: ReliableQueue
) -> None:
    ids: list[object] = []

    def connection_ids() -> list[object]:
        lines = valkey.call("CLIENT", "LIST", "TYPE", "pubsub")
        assert isinstance(lines, bytes)
        return [line.split()[0] for line in lines.splitlines()]

    async def blocks(item: Item) -> None:
        eventually_sync(lambda: announced(valkey))
        ids.extend(connection_ids())
        valkey.call("CLIENT", "KILL", "TYPE", "pubsub")
        eventually_sync(lambda: set(connection_ids()) - set(ids))

    await queue.enqueue("a")
    assert (await queue.consume(blocks, max_items=1)).done == 1


async def test_a_run_that_ends_takes_leave_and_closes_its_connection(
    valkey: Server, queue: ReliableQueue, seen: Seen
) -> None:
    async def notes(item: Item) -> None:
        await eventually(lambda: announced(valkey))
        await seen(item)

    await queue.enqueue("a")
    await queue.consume(notes, max_items=1)
    assert seen.payloads == ["a"]
    await eventually(lambda: not announced(valkey))  # it waits a second for that
    await eventually(lambda: subscriptions(valkey) == 0)


async def test_a_cancellation_that_the_client_library_loses_leaves_no_connection(
    valkey: Server, queue: ReliableQueue, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Python 3.11, asyncio.wait_for() drops a cancellation that meets the end of its work."""
    lost: list[object] = []
    quiet = Presence._quiet

    async def loses_the_first(presence: Presence, connection: redis.asyncio.Connection) -> None:
        try:
            await quiet(presence, connection)
        except asyncio.CancelledError as error:
            if lost:
                raise
            lost.append(error)

    async def notes(item: Item) -> None:
        await eventually(lambda: announced(valkey))
        await seen(item)

    monkeypatch.setattr(Presence, "_quiet", loses_the_first)
    await queue.enqueue("a")
    await queue.consume(notes, max_items=1)
    await eventually(lambda: subscriptions(valkey) == 0)
    assert lost


@pytest.mark.parametrize("milliseconds", [0, 2500])
async def test_a_process_that_may_not_subscribe_any_more_is_up_to_its_leases(
    valkey: Server, queue: ReliableQueue, caplog: pytest.LogCaptureFixture, milliseconds: int
) -> None:
    """The rights of a user change while it works: the server closes its subscription, as if the process had died. It
    may take some time to remove the announcement."""
    caplog.set_level(logging.INFO, logger="claimq")
    valkey.call("ACL", "SETUSER", "w", "on", ">pw", "~*", "&*", "+@all")
    url = f"unix://w:pw@{valkey.unix_path}?db=0"

    async def loses_rights(item: Item) -> None:
        await eventually(lambda: announced(valkey))
        valkey.call("CLIENT", "PAUSE", milliseconds, "WRITE")
        valkey.call("ACL", "SETUSER", "w", "resetchannels", "-subscribe")
        await eventually(lambda: "is not noticed before its leases end" in caplog.text)
        await eventually(lambda: not announced(valkey))
        for seconds in (1.1, 3.1):
            await move_clock(queue, seconds)
            assert (await queue.reap()).expired == ()

    settings = claimq.RedisSettings(url, reply_timeout=PATIENCE, connect_timeout=PATIENCE)
    async with claimq.connect(settings=settings) as store:
        await queue.enqueue("a")
        assert (await store.queue("q").consume(loses_rights, max_items=1)).done == 1


async def test_a_program_that_brings_its_own_client_is_up_to_its_leases(
    valkey: Server, queue: ReliableQueue
) -> None:
    """Its connections are not claimq's, which knows no address either."""
    threads: list[str] = []
    before = set(threading.enumerate())  # in an outage that another test left, they last a minute
    await queue.enqueue("a")
    async with (
        redis.asyncio.Redis(unix_socket_path=str(valkey.unix_path), socket_timeout=PATIENCE) as client,
        claimq.connect(client=client) as store,
    ):
        await store.queue("q").consume(
            lambda _: threads.extend(thread.name for thread in {*threading.enumerate()} - before),
            max_items=1,
        )
    assert threads
    assert "claimq-presence" not in threads


async def test_nothing_of_a_queue_that_is_deleted_after_consume_comes_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An announcement on its way when `consume` ends must not arrive after the deletion."""
    # By default a close leaves the kept replies of a busy server to their expiry.
    monkeypatch.setattr(connection, "_FORGET_SECONDS", PATIENCE)
    # By default a run does not wait longer for the end of its presence.
    monkeypatch.setattr(presence, "_QUICK", PATIENCE)
    async with open_server(server.url) as store:
        for number in range(40):
            queue = store.queue(f"short-{number}")
            await queue.enqueue("a")
            await queue.consume(lambda _: None, return_when_empty=True, handle_signals=False)
            await queue.delete()
    assert server.call("KEYS", "cq:{short-*") == []
