"""reap also removes, a bounded piece at a time, what calls and dead workers leave behind."""

import re

import pytest

from claimq import NewItem, ReliableQueue, State
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, enqueued_and_claimed, lengths, texts, verdicts, waiting
from testkit.queues.script_calls import run
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def held(queue: ReliableQueue, payloads: str) -> list[str]:
    return [claim.token for claim in await enqueued_and_claimed(queue, payloads)]


async def test_a_lease_without_an_item_is_dropped_when_it_ends(server: Server, queue: ReliableQueue) -> None:
    one, two = await held(queue, "ab")
    server.call("HDEL", "cq:{q}:busy:w1", one)
    await move_clock(queue, 31)
    reaped = await queue.reap()
    assert [outcome.token for outcome in reaped.expired] == [two]
    assert reaped.repaired == 1
    assert await lengths(queue) == Lengths(main=1)
    assert (await queue.stats())["repaired"] == 1


async def test_a_missing_wake_token_is_put_back_where_there_is_work(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("a")
    server.call("DEL", "cq:{q}:wake")
    await queue.reap()
    assert server.call("LLEN", "cq:{q}:wake") == 1
    await queue.reap()
    assert server.call("LLEN", "cq:{q}:wake") == 1


async def test_a_missing_wake_token_is_put_back_for_clients_too(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue("a", client="ann")
    server.call("DEL", "cq:{q}:wake")
    await queue.reap()
    assert server.call("LLEN", "cq:{q}:wake") == 1


async def test_no_work_needs_no_wake_token(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.done(await queue.claim(wait=0))
    server.call("DEL", "cq:{q}:wake")
    await queue.reap()
    assert server.call("LLEN", "cq:{q}:wake") == 0


async def test_the_log_of_claims_does_not_grow_with_what_has_ended(
    server: Server, queue: ReliableQueue
) -> None:
    for _ in range(300):
        await queue.done(await held(queue, "a"))
        await queue.reap(100)
    assert _length(server, "cq:{q}:claims") <= 2


async def test_one_long_claim_does_not_keep_the_log_growing(server: Server, queue: ReliableQueue) -> None:
    (long,) = await held(queue, "a")
    for _ in range(400):
        await queue.done(await held(queue, "b"))
    for _ in range(10):
        await queue.reap(100)
    assert _length(server, "cq:{q}:claims") <= 5
    (located,) = await queue.items(State.BUSY)
    assert located.name == long
    assert located.claimed_at is not None


def _length(server: Server, key: str) -> int:
    kind = server.call("TYPE", key)
    length = server.call("ZCARD" if kind == b"zset" else "LLEN", key)
    assert isinstance(length, int)
    return length


async def test_claims_beside_many_live_ones_ask_for_repair_now_and_then(queue: ReliableQueue) -> None:
    """Not each of them: a repair looks at 256 calls of the log, and all of these are live."""
    await queue.claim(wait=0)
    incarnation = queue._connection.incarnations[queue._keys.main]
    await queue.enqueue_many(["x"] * 600)
    asked = 0
    for number in range(600):
        with queue._connection.lanes.new_call() as call:
            args: list[str | int] = ["w1", 1, f"nonce{number:03}", incarnation]
            reply = await run(queue, "claim", *call, *args)
        asked += int(reply[1].split()[5]) >= 2
    assert 1 <= asked <= 4


async def test_a_foreign_line_in_the_log_of_claims_stops_no_repair(
    server: Server, queue: ReliableQueue
) -> None:
    await held(queue, "a")
    if server.call("TYPE", "cq:{q}:claims") == b"zset":
        server.call("ZADD", "cq:{q}:claims", 1, "nonsense")
    else:
        server.call("LPUSH", "cq:{q}:claims", "nonsense")
    await queue.reap()
    assert (await queue.snapshot()).ages[State.BUSY] is not None
    assert len(await queue.items(State.BUSY)) == 1


async def test_a_worker_that_was_not_seen_for_an_hour_and_holds_nothing_is_forgotten(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.done(await held(queue, "a"))
    (kept,) = await held(other_worker, "b")
    await move_clock(queue, 3700)
    await other_worker.renew(kept)
    await queue.reap()
    assert [worker.worker for worker in await queue.workers()] == ["w2"]


async def test_a_worker_that_holds_something_is_not_forgotten(server: Server, queue: ReliableQueue) -> None:
    (token,) = await held(queue, "a")
    server.call("ZADD", "cq:{q}:workers", 1, "w1")
    for _ in range(3):
        await queue.reap()
    assert [worker.worker for worker in await queue.workers()] == ["w1"]
    assert verdicts(await queue.done(token)) == ["done"]


@pytest.mark.parametrize("part", ["clients", "heads", "stats", "config", "wake", "claims", "workers", "ids"])
async def test_any_one_lost_key_loses_no_item_of_main_and_busy(
    server: Server, queue: ReliableQueue, part: str
) -> None:
    """What the key itself held is gone; every item is still there, and can be claimed or expires."""
    await queue.enqueue_many(["x", NewItem("y", id="own"), "z"])
    token = (await queue.claim(wait=0))[0].token
    server.call("DEL", f"cq:{{q}}:{part}")
    for _ in range(3):
        await queue.reap()
    assert await waiting(queue) == ["y", "z"]
    assert texts(await queue.claim(9, wait=0)) == ["y", "z"]
    assert verdicts(await queue.done(token)) in (["done"], ["lost"])


async def test_a_queue_in_order_is_not_repaired(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue_many(["plain", *(NewItem(client, client=client) for client in "abc")])
    await queue.fail(await queue.claim(2, wait=0), "no", permanent=True)
    before = (await queue.stats())["repaired"]
    for limit in (1, 2, 100):
        await queue.reap(limit)
    assert (await queue.stats())["repaired"] == before


async def test_a_repair_of_all_kinds_at_once_is_bounded(queue: ReliableQueue, server: Server) -> None:
    """Its commands are what it costs: some 1.5 us each, and twice that on a slow machine."""
    numbers = range(1000)
    await held(queue, "ab")
    server.call("ZADD", "cq:{q}:ids", *(word for n in numbers for word in (1, f"old-{n}")))
    server.call("ZADD", "cq:{q}:claims", *(word for n in numbers for word in (1, f"{n + 2000} 2 nonce w1")))
    server.call("ZADD", "cq:{q}:leases", *(word for n in numbers for word in (10**15, f"w1/{n}.late")))
    before = _commands(server)
    _, _, more = await run(queue, "repair", 1000)
    assert _commands(server) - before <= 1_500
    assert more, "there are more claim calls to forget"
    for _ in range(8):
        await queue.reap(1000)
    assert [_length(server, f"cq:{{q}}:{key}") for key in ("ids", "claims")] == [0, 1]


def _commands(server: Server) -> int:
    """How many commands the server has run, those of scripts among them."""
    text = server.call("INFO", "commandstats")
    assert isinstance(text, bytes)
    return sum(map(int, re.findall(r"calls=(\d+)", text.decode())))


async def test_old_ids_are_forgotten_in_calls_of_a_thousand(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue("x", id="new")
    server.call("ZADD", "cq:{q}:ids", *(word for number in range(1500) for word in (number, f"old-{number}")))
    assert (await queue.reap(500)).more
    assert server.call("ZCARD", "cq:{q}:ids") == 501
    assert not (await queue.reap(500)).more
    assert server.call("ZRANGE", "cq:{q}:ids", 0, -1) == [b"new"]
