"""reap also mends, a bounded piece at a time, what a crash, a foreign client or a lost key left behind."""

import re

import pytest

from claimq import Claim, NewItem, Policy, ReliableQueue, State
from testkit.clock import move_clock
from testkit.looking import Lengths, lengths, texts, verdicts, waiting
from testkit.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def held(queue: ReliableQueue, payloads: str) -> list[str]:
    await queue.enqueue_many(list(payloads))
    return [claim.token for claim in await queue.claim(len(payloads), wait=0)]


async def test_a_lease_without_an_item_is_dropped_when_it_ends(server: Server, queue: ReliableQueue) -> None:
    one, two = await held(queue, "ab")
    server.call("HDEL", "cq:{q}:busy:w1", one)
    await move_clock(queue, 31)
    reaped = await queue.reap()
    assert [outcome.token for outcome in reaped.expired] == [two]
    assert reaped.repaired == 1
    assert await lengths(queue) == Lengths(main=1)
    assert (await queue.stats())["repaired"] == 1


async def test_an_item_in_busy_without_a_lease_gets_one_and_can_expire(
    server: Server, queue: ReliableQueue
) -> None:
    one, two = await held(queue, "ab")
    server.call("ZREM", "cq:{q}:leases", one)
    assert verdicts(await queue.renew(one)) == ["lost"]
    repaired = (await queue.reap()).repaired
    assert repaired == 1
    assert await lengths(queue) == Lengths(busy=2)
    assert verdicts(await queue.renew([one, two])) == ["renewed"] * 2
    await move_clock(queue, 31)
    assert len((await queue.reap()).expired) == 2


async def test_all_leases_may_be_lost_and_every_item_returns(server: Server, queue: ReliableQueue) -> None:
    await held(queue, "abcdefghij" * 20)
    server.call("DEL", "cq:{q}:leases")
    mended = 0
    for _ in range(30):
        mended += (await queue.reap(50)).repaired
    assert mended == 200
    await move_clock(queue, 31)
    while (await queue.reap(1000)).more:
        pass
    assert await lengths(queue) == Lengths(main=200)


@pytest.mark.parametrize("count", [1, 20])
async def test_lost_leases_do_not_make_a_queue_look_empty(
    server: Server, queue: ReliableQueue, count: int
) -> None:
    claims = await held(queue, "x" * count)
    server.call("DEL", "cq:{q}:leases")
    await queue.reap()
    assert await lengths(queue) == Lengths(busy=count)
    assert await queue.delete(only_if_empty=True) is None
    assert verdicts(await queue.done(claims)) == ["done"] * count
    assert await lengths(queue) == Lengths()


async def test_leases_without_the_entry_that_stays_are_counted_right_after_a_repair(
    server: Server, queue: ReliableQueue
) -> None:
    await held(queue, "ab")
    entries = server.call("ZRANGEBYSCORE", "cq:{q}:leases", "+inf", "+inf")
    assert server.call("ZREMRANGEBYSCORE", "cq:{q}:leases", "+inf", "+inf") == 1
    assert await lengths(queue) == Lengths(busy=1)
    await queue.reap()
    assert await lengths(queue) == Lengths(busy=2)
    assert server.call("ZRANGEBYSCORE", "cq:{q}:leases", "+inf", "+inf") == entries


async def test_a_repair_is_bounded_and_comes_round_all_workers(server: Server, queue: ReliableQueue) -> None:
    workers = [type(queue)(queue._connection, "q", f"w{number}") for number in range(6)]
    for worker in workers:
        await held(worker, "abcdefghij" * 10)
    server.call("DEL", "cq:{q}:leases")
    pieces = [(await queue.reap(10)).repaired for _ in range(200)]
    assert sum(pieces) == 600
    assert max(pieces) <= 200, "a small hash is looked through in one go, never all of them"


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
        with queue._connection.lane() as call:
            args: list[str | int] = ["w1", 1, f"nonce{number:03}", incarnation]
            reply = await queue._connection.run("claim", [queue._keys.main], [*call, *args])
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


async def test_failed_items_that_lost_their_place_are_listed_again(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue_many([NewItem("x", id=str(number)) for number in range(5)])
    await queue.fail(await queue.claim(5, wait=0), "no", permanent=True)
    server.call("ZREM", "cq:{q}:failed", "1", "3")
    server.call("HDEL", "cq:{q}:failed:items", "4")
    for _ in range(4):
        await queue.reap(3)
    assert sorted(located.item.id for located in await queue.items("failed")) == ["0", "1", "2", "3"]
    assert await queue.length("failed") == 4


async def test_a_queue_in_order_is_not_repaired(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue_many(["plain", *(NewItem(client, client=client) for client in "abc")])
    await queue.fail(await queue.claim(2, wait=0), "no", permanent=True)
    before = (await queue.stats())["repaired"]
    for limit in (1, 2, 100):
        await queue.reap(limit)
    assert (await queue.stats())["repaired"] == before


@pytest.mark.servers("valkey")
async def test_a_repair_reads_no_values_of_items(queue: ReliableQueue, server: Server) -> None:
    """One step through a hash of Valkey 9 returns seven fields or more. What a script reads is in the server's memory,
    whose peak shows it."""
    size = 6 * 2**20
    await queue.set_policy(Policy(max_payload=size, requeue_limit=0))
    for _ in range(14):
        await queue.enqueue(b"x" * size)
        await queue.claim(wait=0)
    used, peak = memory(server, "used_memory"), memory(server, "used_memory_peak")
    await queue._connection.run("repair", [queue._keys.main], [100])
    assert memory(server, "used_memory_peak") <= max(peak, used + 2 * size)


@pytest.mark.servers("redis7")
async def test_a_repair_of_a_hash_with_many_empty_places_is_bounded(
    queue: ReliableQueue, server: Server
) -> None:
    """While a child process saves the data, the server does not shrink a hash that loses its fields; nor does it later,
    before the next deletion."""
    await queue.enqueue("x")
    fields = [f"body-{n}" for n in range(33_000)]
    for start in range(0, len(fields), 1_000):
        server.call(
            "HSET", "cq:{q}:failed:items", *(word for f in fields[start : start + 1_000] for word in (f, "x"))
        )
    server.call("CONFIG", "SET", "rdb-key-save-delay", 15_000_000)  # microseconds for each key
    server.call("BGSAVE")
    for start in range(5, len(fields), 1_000):
        server.call("HDEL", "cq:{q}:failed:items", *fields[start : start + 1_000])
    assert "rdb_bgsave_in_progress:1" in _info(server, "persistence")
    server.call("CONFIG", "SET", "rdb-key-save-delay", 0)
    calls: list[int] = []
    while not calls or server.call("HGET", "cq:{q}:stats", "repair_failed_cursor") not in (None, b"0"):
        before = _calls_of(server, "hscan")
        await queue._connection.run("repair", [queue._keys.main], [256])
        calls.append(_calls_of(server, "hscan") - before)
    assert max(calls) <= 260
    assert sum(calls) > 1_000, "the hash has kept its places"
    assert await queue.length("failed") == 5
    server.call("FLUSHALL")  # ends the child process too


async def test_a_repair_of_all_kinds_at_once_is_bounded(queue: ReliableQueue, server: Server) -> None:
    """Its commands are what it costs: some 1.5 us each, and twice that on a slow machine."""
    held_by_lost_leases = [claim.token for _ in range(2) for claim in await _claims(queue, 500)]
    numbers = range(1000)
    server.call("DEL", "cq:{q}:leases")
    server.call("ZADD", "cq:{q}:ids", *(word for n in numbers for word in (1, f"old-{n}")))
    server.call("ZADD", "cq:{q}:claims", *(word for n in numbers for word in (1, f"{n + 2000} 2 nonce w1")))
    server.call("ZADD", "cq:{q}:failed", *(word for n in numbers for word in (1, f"place-{n}")))
    server.call("HSET", "cq:{q}:failed:items", *(word for n in numbers for word in (f"body-{n}", "x")))
    server.call("ZADD", "cq:{q}:heads", *(word for n in numbers for word in (1, f"gone-{n}")))
    before = _commands(server)
    more = (await queue._connection.run("repair", [queue._keys.main], [1000]))[2]
    assert _commands(server) - before <= 3_500
    assert more, "there are more claim calls to forget"
    for _ in range(8):
        await queue.reap(1000)
    left = {key: _length(server, f"cq:{{q}}:{key}") for key in ("ids", "claims", "failed", "heads")}
    assert left == {"ids": 0, "claims": 2, "failed": 1000, "heads": 0}
    assert verdicts(await queue.renew(held_by_lost_leases)) == ["renewed"] * 1000


async def _claims(queue: ReliableQueue, count: int) -> list[Claim]:
    await queue.enqueue_many(["x"] * count)
    return await queue.claim(count, wait=0)


def _commands(server: Server) -> int:
    """How many commands the server has run, those of scripts among them."""
    return sum(map(int, re.findall(r"calls=(\d+)", _info(server, "commandstats"))))


def _calls_of(server: Server, command: str) -> int:
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", _info(server, "commandstats"))
    return int(found[1]) if found else 0


def memory(server: Server, name: str) -> int:
    return int(re.findall(rf"^{name}:(\d+)", _info(server, "memory"), re.MULTILINE)[0])


def _info(server: Server, section: str) -> str:
    text = server.call("INFO", section)
    assert isinstance(text, bytes)
    return text.decode()


async def test_an_item_of_a_worker_that_is_not_known_any_more_returns(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    """The log of claim calls names its worker."""
    await held(other_worker, "a")
    server.call("DEL", "cq:{q}:leases", "cq:{q}:workers")
    await queue.enqueue("b")
    await queue.done(await queue.claim(wait=0))
    for _ in range(4):
        await queue.reap()
    await move_clock(queue, 31)
    await queue.reap()
    assert await waiting(queue) == ["a"]
