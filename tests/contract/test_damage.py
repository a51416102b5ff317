"""What another client has done to a queue's keys is reported with the command that corrects it."""

import pytest

from claimq import NewItem, Priority, ReliableQueue, State
from claimq.internals.operations import Damage, internals
from testkit.queues.clock import move_clock
from testkit.queues.damaged_keys import correct
from testkit.queues.looking import Lengths, enqueued_and_claimed, lengths, texts, verdicts
from testkit.queues.script_calls import run
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def reported(queue: ReliableQueue) -> list[tuple[str, str]]:
    """The keys and what is wrong with them."""
    return [(one.key.decode(), one.message.decode()) for one in await internals(queue).damage()]


async def held(queue: ReliableQueue, payloads: str) -> list[str]:
    return [claim.token for claim in await enqueued_and_claimed(queue, payloads)]


async def test_a_queue_in_order_has_no_damage(queue: ReliableQueue, other_worker: ReliableQueue) -> None:
    await queue.enqueue_many(
        ["plain", *(NewItem(client, client=client, priority=Priority.HIGH) for client in "abc")]
    )
    await queue.enqueue("one", key="k")
    await queue.fail(await queue.claim(2, wait=0), "no", permanent=True)
    await other_worker.claim(1, wait=0)
    await queue.enqueue("later", delay=5)
    assert await internals(queue).damage() == []


async def test_an_item_in_busy_without_a_lease_gets_one_and_can_expire(
    server: Server, queue: ReliableQueue
) -> None:
    one, two = await held(queue, "ab")
    server.call("ZREM", "cq:{q}:leases", one)
    await queue.reap()
    (damage,) = await internals(queue).damage()
    message = f"lacks the claim {one}, which never expires"
    assert (damage.key, damage.message) == (b"cq:{q}:leases", message.encode())
    assert damage.command[:2] == (b"ZADD", b"cq:{q}:leases")
    assert verdicts(await queue.renew(one)) == ["lost"]
    assert await correct(queue, server) == 1
    assert verdicts(await queue.renew([one, two])) == ["renewed"] * 2
    await move_clock(queue, 31)
    assert len((await queue.reap()).expired) == 2


async def test_all_leases_and_workers_may_be_lost_and_every_item_returns(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await held(queue, "abcde" * 5)
    await held(other_worker, "z")
    server.call("DEL", "cq:{q}:leases", "cq:{q}:workers")
    messages = [message for _, message in await reported(queue)]
    assert messages[:2] in (
        ["lacks the worker w1, which has claims", "lacks the worker w2, which has claims"],
        ["lacks the worker w2, which has claims", "lacks the worker w1, which has claims"],
    )
    assert len(messages) == 2 + 10, "at most ten of a kind"
    assert await correct(queue, server) == 2 + 26 + 1
    await move_clock(queue, 31)
    while (await queue.reap(1000)).more:
        pass
    assert await lengths(queue) == Lengths(main=26)


@pytest.mark.parametrize("count", [1, 20])
async def test_lost_leases_do_not_make_a_queue_look_empty(
    server: Server, queue: ReliableQueue, count: int
) -> None:
    claims = await held(queue, "x" * count)
    server.call("DEL", "cq:{q}:leases")
    assert await queue.delete(only_if_empty=True) is None
    await correct(queue, server)
    assert await lengths(queue) == Lengths(busy=count)
    assert verdicts(await queue.done(claims)) == ["done"] * count
    assert await lengths(queue) == Lengths()


async def test_lost_counters_do_not_make_a_queue_look_empty(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue("x", client="ann")
    server.call("DEL", "cq:{q}:stats")
    assert await queue.delete(only_if_empty=True) is None
    assert server.call("LLEN", "cq:{q}:main:ann") == 1


async def test_leases_without_their_last_entry_are_counted_again(
    server: Server, queue: ReliableQueue
) -> None:
    await held(queue, "ab")
    entries = server.call("ZRANGEBYSCORE", "cq:{q}:leases", "+inf", "+inf")
    assert server.call("ZREMRANGEBYSCORE", "cq:{q}:leases", "+inf", "+inf") == 1
    assert await lengths(queue) == Lengths(busy=1)
    assert await reported(queue) == [("cq:{q}:leases", "lacks its last entry, so one claim is not counted")]
    await correct(queue, server)
    assert await lengths(queue) == Lengths(busy=2)
    assert server.call("ZRANGEBYSCORE", "cq:{q}:leases", "+inf", "+inf") == entries


async def test_failed_items_that_lost_their_place_are_listed_again(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue_many([NewItem("x", id=str(number)) for number in range(5)])
    await queue.fail(await queue.claim(5, wait=0), "no", permanent=True)
    server.call("ZREM", "cq:{q}:failed", "1", "3")
    server.call("HDEL", "cq:{q}:failed:items", "4")
    await queue.reap()
    assert sorted(await reported(queue)) == [
        ("cq:{q}:failed", "lacks the failed item 1"),
        ("cq:{q}:failed", "lacks the failed item 3"),
        ("cq:{q}:failed", "lists 4, which is gone"),
    ]
    await correct(queue, server)
    assert sorted(located.item.id for located in await queue.items("failed")) == ["0", "1", "2", "3"]
    assert await queue.length("failed") == 4


async def test_a_lost_ring_of_clients_is_made_again(queue: ReliableQueue, server: Server) -> None:
    clients = [f"c{number}" for number in range(5)]
    await queue.enqueue_many(["plain", *(NewItem(client, client=client) for client in clients)])
    await queue.unclaim(await queue.claim(1, wait=0))
    server.call("DEL", "cq:{q}:clients")
    await queue.reap()
    assert ("cq:{q}:clients", "lacks the client c3, whose items wait") in await reported(queue)
    await correct(queue, server)
    got = texts(await queue.claim(10, wait=0))
    assert sorted(got) == [*clients, "plain"]


async def test_a_client_whose_list_was_deleted_leaves_the_ring_and_stops_no_other(
    server: Server, queue: ReliableQueue
) -> None:
    for client in ("ann", "bob", "cid"):
        await queue.enqueue_many([NewItem(f"{client}{n}", client=client) for n in range(2)])
    server.call("DEL", "cq:{q}:main:bob")
    got: list[str] = []
    while claims := await queue.claim(2, wait=0):
        got += texts(claims)
    assert sorted(got) == ["ann0", "ann1", "cid0", "cid1"]


async def test_a_lost_list_of_a_client_is_no_longer_counted(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue_many([NewItem("x", client=client) for client in "aab"])
    server.call("DEL", "cq:{q}:main:a")
    assert await queue.length() == 3
    assert await reported(queue) == [("cq:{q}:stats", "counts 3 items of clients, and 1 wait")]
    await correct(queue, server)
    assert await queue.length() == 1


async def test_lost_counters_of_thousands_of_clients_are_made_again(
    queue: ReliableQueue, server: Server
) -> None:
    for begin in (0, 1000):
        await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(begin, begin + 1000)])
    server.call("DEL", "cq:{q}:stats")
    assert await reported(queue) == [("cq:{q}:stats", "counts 0 items of clients, and 2000 wait")]
    await correct(queue, server)
    claimed = 0
    while claims := await queue.claim(1000, wait=0):
        claimed += len(claims)
        await queue.done(claims)
    assert claimed == 2000
    assert await queue.length() == 0


async def test_a_report_of_more_than_ten_thousand_clients_leaves_them_out(
    queue: ReliableQueue, server: Server
) -> None:
    for begin in range(0, 10_500, 500):
        await queue.enqueue_many([NewItem("x", client=f"c{n}") for n in range(begin, begin + 500)])
    server.call("DEL", "cq:{q}:clients")
    assert await reported(queue) == []


@pytest.mark.parametrize("way", ["enqueue", "requeue", "due"])
async def test_a_client_whose_ring_and_index_are_lost_is_reported_with_its_next_item(
    queue: ReliableQueue, server: Server, way: str
) -> None:
    """Nothing else names its list. No command of the documented rights lists the keys of a queue."""
    await queue.enqueue_many([NewItem(text, client="ann") for text in "abc"])
    (claim,) = await queue.claim(1, wait=0)
    await queue.enqueue("d", client="ann", delay=5)
    await queue.enqueue("e", client="bob")
    server.call("DEL", "cq:{q}:clients", "cq:{q}:heads")
    await queue.enqueue("f", client="bob")
    if way == "enqueue":
        await queue.enqueue("g", client="ann")
    if way == "requeue":
        await queue.requeue(claim)
    if way == "due":
        await move_clock(queue, 6)
    await queue.reap()
    await correct(queue, server)
    new = {"enqueue": "g", "requeue": "a", "due": "d"}[way]
    assert sorted(texts(await queue.claim(9, wait=0))) == sorted(f"bcef{new}")
    assert await queue.length() == 0


@pytest.mark.parametrize("verb", ["flush", "delete"])
async def test_clients_that_the_ring_has_lost_are_removed_with_the_others(
    queue: ReliableQueue, server: Server, verb: str
) -> None:
    for begin in range(0, 1200, 600):
        items = [
            NewItem("x", client=f"c{n}", priority="low" if n % 2 else "normal")
            for n in range(begin, begin + 600)
        ]
        await queue.enqueue_many(items)
    server.call("DEL", "cq:{q}:clients")
    await queue.enqueue("x", client="late")
    removed = await (queue.flush() if verb == "flush" else queue.delete())
    assert removed is not None
    assert removed[State.MAIN] == 1201
    assert server.call("KEYS", "cq:{q}:main*") == server.call("KEYS", "cq:{q}:low*") == []
    assert await queue.length() == 0


@pytest.mark.parametrize("fields", [("ann", "7"), ("bob", "1"), ("ann", "none"), ()])
async def test_wrong_counts_of_delayed_items_are_corrected(
    queue: ReliableQueue, server: Server, fields: tuple[str, ...]
) -> None:
    await queue.enqueue_many([NewItem("x", client="ann", delay=5), NewItem("y", client="ann", delay=5), "z"])
    await queue.enqueue("none", delay=5)
    server.call(
        *(("HSET", "cq:{q}:delayed:clients", *fields) if fields else ("DEL", "cq:{q}:delayed:clients"))
    )
    ((key, message),) = await reported(queue)
    assert (key, message.startswith("counts ")) == ("cq:{q}:delayed:clients", True)
    assert await correct(queue, server) == 1
    assert server.call("HGETALL", "cq:{q}:delayed:clients") == [b"ann", b"2"]


async def test_counts_of_delayed_items_end_when_none_is_delayed(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue("x", client="ann")
    server.call("HSET", "cq:{q}:delayed:clients", "ann", "7")
    await queue.update_policy(max_waiting_per_client_items=2)
    await queue.reap()
    await queue.enqueue("y", client="ann")
    assert server.call("EXISTS", "cq:{q}:delayed:clients") == 0


async def test_names_of_clients_are_whole_words_of_the_command(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue("x", client="ann;FLUSHALL")
    server.call("DEL", "cq:{q}:clients")
    assert (
        Damage(
            b"cq:{q}:clients",
            b"lacks the client ann;FLUSHALL, whose items wait",
            (b"ZADD", b"cq:{q}:clients", b"1", b"ann;FLUSHALL"),
        )
        in await internals(queue).damage()
    )


async def test_a_report_is_bounded_whatever_the_keys_hold(queue: ReliableQueue, server: Server) -> None:
    numbers = range(1500)
    await queue.enqueue("x")
    server.call("ZADD", "cq:{q}:failed", *(word for n in numbers for word in (1, f"place-{n}")))
    server.call("HSET", "cq:{q}:failed:items", *(word for n in numbers for word in (f"body-{n}", "x")))
    server.call("ZADD", "cq:{q}:workers", *(word for n in numbers for word in (1, f"w-{n}")))
    for worker in range(7):
        busy = (word for n in numbers[:1000] for word in (f"w-{worker}/{n}.x", "x"))
        server.call("HSET", f"cq:{{q}}:busy:w-{worker}", *busy)
    server.call("CONFIG", "RESETSTAT")
    reply = await run(queue, "damage")
    assert sum(word is None for word in reply) == 20
    info = server.call("INFO", "commandstats")
    assert isinstance(info, bytes)
    calls = sum(int(row.split(b"calls=")[1].split(b",")[0]) for row in info.splitlines() if b"calls=" in row)
    assert calls <= 8_200
