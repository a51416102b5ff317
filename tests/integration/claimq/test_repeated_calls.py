"""A call whose reply was lost is repeated by the library: nothing happens twice, and the answer is the first one's."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest

import claimq
from claimq import Done, NewItem, Outcome, Policy, Reason, RedisSettings, ReliableQueue
from claimq.internals.next_claims import next_claims
from claimq.redis_store.scripts import script
from testkit.faults.proxy import FaultProxy
from testkit.queues.clock import move_clock
from testkit.queues.retries import retrying_at_once
from testkit.servers.contents import Contents, changes, contents
from testkit.servers.server import Server

Call = Callable[[ReliableQueue, list[str], list[str]], Awaitable[object]]


def verdicts(outcomes: Sequence[Outcome]) -> list[tuple[str, float | None]]:
    return [(outcome.verdict, outcome.delay) for outcome in outcomes]


async def settled(call: Awaitable[list[Outcome]]) -> object:
    return verdicts(await call)


async def claimed(queue: ReliableQueue) -> object:
    return [(claim.item.id, claim.item.payload) for claim in await queue.claim(3, wait=0)]


async def done_and_claimed(queue: ReliableQueue, held: list[str]) -> object:
    outcomes, claims = await next_claims(queue).done_and_claim([*held, "w1/77.AAAAAAAA"], 3)
    return verdicts(outcomes), [claim.item.id for claim in claims]


async def names(queue: ReliableQueue) -> list[str]:
    return [located.item.id async for located in queue.drain_failed(chunk=2)]


async def removed_one(queue: ReliableQueue, name: str) -> object:
    located = await queue.remove_failed_item(name)
    return located and (located.item.id, located.item.payload, located.name)


KINDS = [
    "bare", NewItem("b", id="own"), NewItem("c", client="ann"), NewItem("d", delay=9),
    NewItem("e", id="late", delay=9),
]  # fmt: skip
CALLS: dict[str, Call] = {
    "enqueue": lambda queue, _, __: queue.enqueue_many(KINDS),
    "enqueue known ids": lambda queue, _, __: queue.enqueue_many(
        [NewItem("x", id="i0"), NewItem("y", id="new")]
    ),
    "claim": lambda queue, _, __: claimed(queue),
    "done": lambda queue, held, _: settled(queue.done([*held, "w1/77.AAAAAAAA"])),
    "done with followers": lambda queue, held, _: settled(
        queue.done(
            [
                Done(held[0], ["next"]),
                Done("w1/77.AAAAAAAA", ["not this"]),
                Done(held[1], {"other": ["next"]}),
            ]
        )
    ),
    "done and claim": lambda queue, held, _: done_and_claimed(queue, held),
    "fail": lambda queue, held, _: settled(queue.fail(held, "broken")),
    "fail permanently": lambda queue, held, _: settled(queue.fail(held, "broken", permanent=True)),
    "requeue": lambda queue, held, _: settled(queue.requeue(held, delay=5)),
    "unclaim": lambda queue, held, _: settled(queue.unclaim([*held, "w1/77.AAAAAAAA"])),
    "crash": lambda queue, held, _: settled(queue.crash(held, "killed")),
    "renew": lambda queue, held, _: settled(queue.renew(held)),
    "release_worker crashed": lambda queue, _, __: queue.release_worker("w1"),
    "release_worker interrupted": lambda queue, _, __: queue.release_worker("w1", Reason.INTERRUPTED),
    "requeue_failed": lambda queue, _, __: queue.requeue_failed(chunk=2),
    "requeue_failed_item": lambda queue, _, failed: queue.requeue_failed_item(failed[0]),
    "remove_failed": lambda queue, _, __: queue.remove_failed(chunk=2, log_limit=0),
    "remove_failed_item": lambda queue, _, failed: removed_one(queue, failed[0]),
    "drain_failed": lambda queue, _, __: names(queue),
    "flush": lambda queue, _, __: queue.flush(),
    "delete": lambda queue, _, __: queue.delete(),
    "set_policy": lambda queue, _, __: queue.set_policy(Policy(requeue_limit=2)),
    "pause": lambda queue, _, __: queue.pause(),
}


@asynccontextmanager
async def through(proxy: FaultProxy, reply_timeout: float = 2.0) -> AsyncGenerator[claimq.Server]:
    """A connection by way of the proxy that waits `reply_timeout` for each reply."""
    settings = RedisSettings(url=proxy.url, retry_for=60.0, reply_timeout=reply_timeout)
    async with claimq.connect(settings=settings) as store:
        yield store


async def prepared(store: claimq.Server) -> tuple[ReliableQueue, list[str], list[str]]:
    """A queue with items in every state: two held by w1, three failed, some waiting."""
    queue = store.queue("q", worker="w1")
    await queue.set_policy(retrying_at_once())
    await queue.enqueue_many(
        [NewItem(f"p{n}", id=f"i{n}", client="ann" if n % 3 else None) for n in range(9)]
    )
    failed = await queue.claim(3, wait=0)
    await queue.fail(failed, "broken", permanent=True)
    held = await queue.claim(2, wait=0)
    return queue, [claim.token for claim in held], sorted(claim.item.id for claim in failed)


def without_names_and_times(held: Contents) -> dict[str, tuple[str, int]]:
    """How many members each key has: what a repeated call would change. Lanes are left out, and the list of queues,
    whose call is not repeated."""
    return {
        key: (kind, len(members))
        for key, (kind, _, members) in held.items()
        if ":calls:" not in key and key != "cq:queues"
    }


def comparable(result: object) -> object:
    if isinstance(result, claimq.Enqueued):
        return len(set(result.ids)), result.length, result.duplicates
    if isinstance(result, claimq.EnqueuedItem):
        return bool(result.id), result.length, result.is_duplicate
    if isinstance(result, claimq.Removed):
        return result.count  # what a chunk removed is not in the log when its reply was lost
    return result


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "silent"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_lost_reply_changes_neither_the_answer_nor_what_is_stored(
    valkey: Server, proxy: FaultProxy, name: str, cut: bool
) -> None:
    async with through(proxy) as store:
        expected = comparable(await CALLS[name](*await prepared(store)))
        counters = await store.queue("q").stats()
    after = without_names_and_times(contents(valkey))
    valkey.call("FLUSHALL")
    async with through(proxy, reply_timeout=0.3 if not cut else 5.0) as store:
        world = await prepared(store)
        fault = proxy.drop_reply(
            1, cut=cut, matching=lambda request: request.name in {"EVALSHA", "EVAL", "HSET"}
        )
        assert comparable(await CALLS[name](*world)) == expected
        assert fault.hit is not None
        assert await store.queue("q").stats() == counters
    assert without_names_and_times(contents(valkey)) == after


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name not in {"renew", "set_policy", "pause", "enqueue"}]
)
async def test_the_same_call_sent_again_and_again_is_answered_as_the_first_time(
    valkey: Server, proxy: FaultProxy, name: str
) -> None:
    async with through(proxy) as store:
        await CALLS[name](*await prepared(store))
        page = script("failed_page").sha.encode()  # it changes nothing, and its answer has the time in it
        last = [one for one in proxy.requests if one.name == "EVALSHA" and one.words[1] != page][-1]
        before = contents(valkey)
        again = [valkey.call(*last.words) for _ in range(3)]
        assert again[0] == again[1] == again[2]
        assert changes(before, contents(valkey)) == {}


async def test_a_repeated_claim_returns_only_the_items_that_have_not_ended(
    valkey: Server, store: claimq.Server, proxy: FaultProxy
) -> None:
    async with through(proxy) as mine:
        queue = mine.queue("q", worker="w1")
        await queue.enqueue_many(list("abc"))
        _, second, _ = await queue.claim(3, wait=0)
        claim = [request for request in proxy.requests if request.name == "EVALSHA"][-1]
        await store.queue("q").done(second)
        reply = valkey.call(*claim.words)
        assert isinstance(reply, list)
        assert [bool(envelope) for envelope in reply[2:]] == [True, False, True]


async def test_the_replies_of_a_process_that_is_gone_are_forgotten_after_an_hour(
    valkey: Server, store: claimq.Server
) -> None:
    queue = store.queue("q", worker="w1")
    calls = f"cq:{{q}}:calls:{queue._connection.lanes.instance}"
    began = _now(valkey)
    await queue.enqueue("a")
    assert began <= _end(valkey, calls) - 3_600_000 <= _now(valkey)
    valkey.call("PEXPIRE", calls, 1_000_000)
    before = _end(valkey, calls)
    await queue.enqueue("b")
    assert _end(valkey, calls) == before  # not put off at every call
    await move_clock(queue, 601)
    await queue.enqueue("c")
    assert _end(valkey, calls) - 3_600_000 >= began  # but while the process lives


def _now(server: Server) -> float:
    """The server's clock, in milliseconds."""
    seconds, microseconds = map(int, cast("list[bytes]", server.call("TIME")))
    return seconds * 1000 + microseconds // 1000


def _end(server: Server, key: str) -> int:
    return cast("int", server.call("PEXPIRETIME", key))


async def _work(store: claimq.Server) -> Counter[str]:
    """Enqueues items and works through them with every verdict; answers how often each item was handed out."""
    queue = store.queue("q", worker="w1")
    await queue.set_policy(retrying_at_once(requeue_limit=3, busy_expiry=60))
    for number in range(6):
        await queue.enqueue_many([NewItem("x", id=f"own{number}"), NewItem("y", client="ann")])
    handed: Counter[str] = Counter()
    while claims := await queue.claim(3, wait=0):
        await queue.renew(claims)
        for claim in claims:
            handed[claim.item.payload.decode()] += 1
            turn = sum(handed.values()) % 4
            if turn == 0:
                await queue.fail(claim, "broken")
            elif turn == 1 and claim.item.interrupted_count < 1:
                await queue.unclaim(claim)
            elif turn == 2 and claim.item.requeue_count < 1:
                await queue.crash(claim, "killed")
            else:
                await queue.done(claim, enqueue=["z"] if claim.item.payload == b"x" else ())
    return handed


EFFECTS: dict[str, Callable[[FaultProxy, int], object]] = {
    "reply lost": lambda proxy, k: proxy.drop_reply(k),
    "request cut": lambda proxy, k: proxy.cut_request(k, after=40),
}


@pytest.mark.parametrize("effect", EFFECTS)
async def test_the_kth_call_may_fail_and_every_counter_is_as_without_a_fault(
    valkey: Server, proxy: FaultProxy, effect: str
) -> None:
    async with through(proxy) as store:
        expected = await _work(store)
        counters, lengths = await store.queue("q").stats(), await store.queue("q").lengths()
    calls = proxy.count("EVALSHA")
    assert calls > 50
    for k in range(1, 51):
        valkey.call("FLUSHALL")
        async with through(proxy) as store:
            EFFECTS[effect](proxy, k)
            handed = await _work(store)
            queue = store.queue("q")
            assert handed == expected, k
            assert await queue.stats() == counters, k
            assert await queue.lengths() == lengths, k
            leases = valkey.call("ZRANGE", "cq:{q}:leases", 0, -1)
            assert isinstance(leases, list)
            assert len(leases) <= 1, k  # the entry that never ends


async def test_replies_that_come_too_late_reach_no_other_call(valkey: Server, proxy: FaultProxy) -> None:
    """A call given up and repeated on a new connection: no later call reads its old reply."""
    async with through(proxy, reply_timeout=0.1) as mine:
        queue = mine.queue("q", worker="w1")
        await queue.enqueue("warm", id="warm")
        proxy.delay(0.08)  # each way: every reply comes too late
        calls = [asyncio.ensure_future(queue.enqueue(f"p{n}", id=f"i{n}")) for n in range(10)]
        await asyncio.wait(calls, timeout=0.5)
        proxy.delay(0)
        results = await asyncio.gather(*calls)
    assert [result.id for result in results] == [f"i{number}" for number in range(10)]
    assert valkey.call("LLEN", "cq:{q}:main") == 11
