"""The books of a queue on a real server: what balances at every instant, and what another client breaks."""

from claimq import FailedPolicy, NewItem, Policy, ReliableQueue
from claimq_control.decide.books import unaccounted
from testkit.servers.server import Server


async def difference(queue: ReliableQueue) -> int:
    return unaccounted(await queue.snapshot())


async def test_the_books_balance_after_each_way_an_item_can_take(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(max_items=1)))
    await queue.enqueue_many([NewItem("x", client=client) for client in "aabb"] + [NewItem("x")] * 6)
    await queue.enqueue("later", delay=3600)
    assert await difference(queue) == 0
    first, second, third, fourth, *rest = await queue.claim(9, wait=0)
    await queue.done(first)
    await queue.fail([second, third], "no", permanent=True)
    await queue.drop(fourth, "no")
    assert await difference(queue) == 0, "one of the two failed items was removed by the policy"
    await queue.requeue(rest)
    await queue.requeue_failed()
    await queue.flush_client("a")
    assert await difference(queue) == 0
    await queue.flush()
    assert (await difference(queue), (await queue.stats())["enqueued"]) == (0, 11)


async def test_payloads_of_another_client_are_not_missed_before_they_are_items(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue("x")
    server.call("LPUSH", "cq:{q}:main", "bare", "bare")
    assert await difference(queue) == 0
    await queue.done(await queue.claim(3, wait=0))
    assert (await difference(queue), (await queue.stats())["adopted"]) == (0, 2)


async def test_items_that_another_client_takes_away_are_missing(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue_many(["x"] * 5)
    server.call("RPOP", "cq:{q}:main", "3")
    assert await difference(queue) == 3
    await queue.done(await queue.claim(2, wait=0))
    assert await difference(queue) == 3, "it stays"
    server.call("HINCRBY", "cq:{q}:stats", "flushed", "3")
    assert await difference(queue) == 0


async def test_items_that_another_client_copied_are_too_many(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue("x")
    server.call("COPY", "cq:{q}:main", "cq:{q}:copy")
    await queue.claim(wait=0)
    server.call("LMOVE", "cq:{q}:copy", "cq:{q}:main", "LEFT", "LEFT")
    await queue.claim(wait=0)
    assert await difference(queue) == -1
