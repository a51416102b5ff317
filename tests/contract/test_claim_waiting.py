"""Waiting claims: how long, woken by what, and how soon."""

import asyncio
import statistics
from collections.abc import Awaitable, Callable

import pytest

import claimq
from claimq import Policy, ReliableQueue, StoreMisused
from testkit.queues import roles
from testkit.queues.looking import texts
from testkit.servers.contents import blocked_clients
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import eventually

PROMPT = 60.0  # a bound that only a wait without end breaks; the benchmarks measure
"""Seconds: far more than a wake takes on a busy machine, far less than the poll of a second."""


async def test_many_idle_workers_ask_66_times_a_second_together(server: Server, queue: ReliableQueue) -> None:
    await queue.claim(wait=0)
    now = (await queue.snapshot()).now * 1000

    async def poll_beside(count: int, seen_at: float) -> float:
        words = [word for number in range(count) for word in (str(seen_at), f"other{number}")]
        server.call("ZADD", "cq:{q}:workers", *words)
        return (await queue._claim_once(1, None)).poll

    assert await poll_beside(5_000, now - 60_000) == 1.0
    assert await poll_beside(65, now) == 1.0
    assert await poll_beside(263, now) == 4.0
    assert await poll_beside(5_000, now) == 15.0


async def begin(
    server: Server, queue: ReliableQueue, *, wait: float | None = None, count: int = 1
) -> asyncio.Task[list[str]]:
    """A claim that is under way and waits."""
    before = blocked_clients(server)

    async def claim() -> list[str]:
        return texts(await queue.claim(count, wait=wait))

    task = asyncio.ensure_future(claim())
    await eventually(lambda: blocked_clients(server) > before, why="the claim waits")
    return task


async def took(work: asyncio.Future[list[str]]) -> tuple[list[str], float]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.timeout(PROMPT):
        result = await work
    return result, loop.time() - started


async def test_zero_does_not_wait_at_all(server: Server, queue: ReliableQueue) -> None:
    async with asyncio.timeout(PROMPT):
        assert await queue.claim(wait=0) == []
    assert server.call("EXISTS", "cq:{q}:wake") == 0
    assert _calls(server, "blpop") == 0


@pytest.mark.parametrize("wait", [0.05, 0.3, 1.3])
async def test_a_wait_lasts_as_long_as_asked_for(queue: ReliableQueue, wait: float) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await queue.claim(wait=wait) == []
    assert wait <= loop.time() - started < wait + PROMPT


async def test_the_policy_says_how_long_a_claim_waits_that_does_not_say(queue: ReliableQueue) -> None:
    loop = asyncio.get_running_loop()
    await queue.set_policy(Policy(claim_wait_timeout=0.1))
    started = loop.time()
    assert await queue.claim() == []
    assert 0.1 <= loop.time() - started < 0.1 + PROMPT


async def test_none_waits_for_ever_in_short_pieces(server: Server, queue: ReliableQueue) -> None:
    task = await begin(server, queue)
    await asyncio.sleep(1.2)  # longer than one piece: it goes on
    assert not task.done()
    await queue.enqueue("a")
    assert (await took(task))[0] == ["a"]


async def test_an_enqueue_wakes_a_waiting_claim_long_before_its_next_look(
    server: Server, queue: ReliableQueue
) -> None:
    times: list[float] = []
    for number in range(15):
        task = await begin(server, queue)
        await queue.enqueue(str(number))
        result, seconds = await took(task)
        assert result == [str(number)]
        times.append(seconds)
    assert statistics.median(times) < 0.5, "it looks by itself after a second; the benchmarks measure"


@pytest.mark.parametrize(
    "verb", ["requeue", "unclaim", "fail", "crash", "release", "requeue_failed", "follower"]
)
async def test_whatever_brings_an_item_to_main_wakes_a_waiting_claim(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue, verb: str
) -> None:
    await queue.enqueue("a")
    (claim,) = await queue.claim(wait=0)
    if verb == "requeue_failed":
        await queue.fail(claim, "no", permanent=True)
    task = await begin(server, other_worker)
    bring: dict[str, Callable[[], Awaitable[object]]] = {
        "requeue": lambda: queue.requeue(claim),
        "unclaim": lambda: queue.unclaim(claim),
        "fail": lambda: queue.fail(claim, "no"),
        "crash": lambda: queue.crash(claim, "killed"),
        "release": lambda: queue.release_worker("w1"),
        "requeue_failed": queue.requeue_failed,
        "follower": lambda: queue.done(claim, enqueue=["a"]),
    }
    await bring[verb]()
    result, seconds = await took(task)
    assert result == ["a"]
    assert seconds < PROMPT


async def test_a_resume_wakes_a_waiting_claim(server: Server, queue: ReliableQueue) -> None:
    await queue.pause()
    await queue.enqueue("a")
    task = asyncio.ensure_future(queue.claim(wait=None))
    await eventually(lambda: blocked_clients(server) == 1)
    await queue.resume()
    async with asyncio.timeout(PROMPT):
        assert texts(await task) == ["a"]


async def test_a_delayed_item_wakes_a_waiting_claim_when_it_is_due_without_any_operator(
    server: Server, queue: ReliableQueue
) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await queue.enqueue("later", delay=0.4)
    async with asyncio.timeout(PROMPT):
        assert texts(await queue.claim(wait=None)) == ["later"]
    assert 0.4 <= loop.time() - started < 0.4 + PROMPT


async def test_an_item_that_is_delayed_while_a_claim_waits_is_found_at_its_next_look(
    server: Server, queue: ReliableQueue
) -> None:
    task = await begin(server, queue)
    await queue.enqueue("later", delay=0.2)
    result, seconds = await took(task)
    assert result == ["later"]
    assert seconds < 1.0 + 0.2 + PROMPT


async def test_an_expired_lease_is_found_by_a_waiting_claim_without_any_operator(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(Policy(busy_expiry=0.2))
    await queue.enqueue("a")
    await queue.claim(wait=0)
    result, seconds = await took(asyncio.ensure_future(_texts(other_worker)))
    assert result == ["a"]
    assert seconds < 0.2 + 1.0 + PROMPT


async def _texts(queue: ReliableQueue) -> list[str]:
    return texts(await queue.claim(wait=None))


async def test_a_lost_wake_token_costs_a_second_at_most(server: Server, queue: ReliableQueue) -> None:
    task = await begin(server, queue)
    await queue.enqueue("a")
    server.call("DEL", "cq:{q}:wake")
    result, seconds = await took(task)
    assert result == ["a"]
    assert seconds < 1.0 + PROMPT


async def test_a_refused_claim_that_waited_takes_the_token_and_the_reaper_puts_it_back(
    server: Server, queue: ReliableQueue
) -> None:
    roles.give(server, "limited", ["+@all"], keys="~cq:*")
    async with open_queue(roles.url(server, "limited"), worker="limited", retry_for=2.0) as opened:

        async def took_the_token() -> bool:
            """Tried again if the claim was refused between two waits, so not by the token."""
            await queue.flush()
            server.call("ACL", "SETUSER", "limited", "+zadd")
            task = await begin(server, opened)
            server.call("ACL", "SETUSER", "limited", "-zadd")
            await queue.enqueue("a")
            with pytest.raises(StoreMisused, match="may not do this"):
                await took(task)
            return server.call("LLEN", "cq:{q}:wake") == 0

        await eventually(took_the_token)
    assert await queue.length() == 1
    await queue.reap()
    assert server.call("LLEN", "cq:{q}:wake") == 1
    assert texts(await queue.claim(wait=0)) == ["a"]


async def test_many_waiting_claims_each_get_one_of_as_many_items(
    server: Server, queue: ReliableQueue, store: claimq.Server
) -> None:
    tasks = [await begin(server, store.queue("q", worker=f"w{number}")) for number in range(8)]
    await queue.enqueue_many([str(number) for number in range(8)])
    async with asyncio.timeout(PROMPT):
        results = await asyncio.gather(*tasks)
    assert sorted(payload for result in results for payload in result) == [str(number) for number in range(8)]


async def test_there_is_never_more_than_one_wake_token(server: Server, queue: ReliableQueue) -> None:
    for number in range(5):
        await queue.enqueue(str(number))
    claims = await queue.claim(2, wait=0)
    await queue.unclaim(claims)
    await queue.reap()
    assert server.call("LLEN", "cq:{q}:wake") == 1


async def test_a_claim_that_leaves_work_behind_leaves_a_wake_token(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abc"))
    server.call("DEL", "cq:{q}:wake")
    await queue.claim(2, wait=0)
    assert server.call("LLEN", "cq:{q}:wake") == 1


async def test_an_idle_claim_asks_about_once_a_second(server: Server, queue: ReliableQueue) -> None:
    await queue.claim(wait=0)  # the first one on a connection makes calls of its own
    server.call("CONFIG", "RESETSTAT")
    assert await queue.claim(wait=2.5) == []
    assert _calls(server, "evalsha") + _calls(server, "blpop") <= 7


def _calls(server: Server, command: str) -> int:
    reply = server.call("INFO", "commandstats")
    assert isinstance(reply, bytes)
    _, found, calls = reply.partition(f"cmdstat_{command}:calls=".encode())
    return int(calls.split(b",")[0]) if found else 0
