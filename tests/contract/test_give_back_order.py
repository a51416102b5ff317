"""Items given back to the head stand in the order of their first claims, whichever give-back is first."""

from itertools import permutations

import pytest

from claimq import Claim, NewItem, Reason, ReliableQueue
from claimq import Server as Store
from testkit.queues.clock import move_clock
from testkit.queues.frozen_clock import FrozenClock
from testkit.queues.looking import texts, verdicts, waiting
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)

MERGED = 1000
"""How many items that were given back before a call reads (MERGE_ITEMS of lib/head.lua)."""


async def claimed(queue: ReliableQueue, count: int) -> list[Claim]:
    return await queue.claim(count, wait=0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_several_give_backs_restore_the_order_whichever_comes_first(
    queue: ReliableQueue, other_worker: ReliableQueue, order: tuple[int, ...]
) -> None:
    await queue.enqueue_many(list("abcdefgh"))
    claims = [await claimed(queue, 2), await claimed(other_worker, 2), await claimed(queue, 2)]
    for place in order:
        await queue.unclaim(claims[place])
    assert await waiting(queue) == list("abcdefgh")


@pytest.mark.parametrize("first", ["w1", "w2", "w3"])
async def test_interrupted_workers_restore_the_order_whichever_ends_first(store: Store, first: str) -> None:
    queues = {name: store.queue("q", worker=name) for name in ("w1", "w2", "w3")}
    await queues["w1"].enqueue_many(list("abcdefgh"))
    for _ in range(2):
        for queue in queues.values():
            await claimed(queue, 1)
    for name in [first, *(queues.keys() - {first})]:
        await queues["w1"].release_worker(name, Reason.INTERRUPTED)
    assert await waiting(queues["w1"]) == list("abcdefgh")


async def test_a_drain_beside_a_crash_keeps_the_order_of_what_it_gives_back(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcdef"))
    first, _, last = await claimed(queue, 1), await claimed(other_worker, 1), await claimed(queue, 1)
    await queue.unclaim(first)
    await queue.release_worker("w2", Reason.CRASHED)
    await queue.unclaim(last)
    assert await waiting(queue) == ["a", "c", "d", "e", "f", "b"]


async def test_an_item_keeps_its_place_over_several_claims(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcd"))
    early = await claimed(queue, 2)
    late = await claimed(other_worker, 1)
    await queue.unclaim(early)
    again = await claimed(queue, 1)
    await other_worker.unclaim(late)
    assert await waiting(queue) == ["b", "c", "d"]
    await queue.unclaim(again)
    assert await waiting(queue) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("chosen_first", [True, False])
async def test_an_item_that_was_chosen_by_its_id_has_the_place_of_its_first_claim(
    queue: ReliableQueue, other_worker: ReliableQueue, chosen_first: bool
) -> None:
    await queue.enqueue_many([NewItem(name, id=name) for name in "abcd"])
    claims: list[Claim] = []
    for by_id in (chosen_first, not chosen_first):
        claims += [claim for claim in [await queue.claim_item("c")] if claim] if by_id else []
        claims += [] if by_id else await claimed(other_worker, 1)
    order = texts(claims)
    assert order == (["c", "a"] if chosen_first else ["a", "c"])
    for claim in claims:
        await queue.unclaim(claim)
    assert await waiting(queue) == [*order, "b", "d"]


async def test_where_stats_is_lost_and_the_clock_went_back_only_the_order_is_open(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue_many(list("abc"))
    await queue.unclaim(await claimed(queue, 1))
    server.call("DEL", "cq:{q}:stats")
    clock = queue._connection.clients.shared
    assert isinstance(clock, FrozenClock)
    clock.now["q"] -= 3_600_000
    for claim in await claimed(queue, 2):
        await queue.unclaim(claim)
    assert await waiting(queue) == ["b", "a", "c"]


@pytest.mark.usefixtures("retries_at_once")
@pytest.mark.parametrize("verb", ["requeue", "fail", "crash", "delayed", "failed"])
async def test_an_item_that_enters_the_tail_again_has_its_place_there(
    queue: ReliableQueue, verb: str
) -> None:
    await queue.enqueue_many(list("ab"))
    await queue.unclaim(await claimed(queue, 1))
    (claim,) = await claimed(queue, 1)
    await _to_the_tail(queue, verb, claim)
    assert await waiting(queue) == ["b", "a"]
    one, two = await claimed(queue, 1), await claimed(queue, 1)
    await queue.unclaim(one)
    await queue.unclaim(two)
    assert await waiting(queue) == ["b", "a"]


async def _to_the_tail(queue: ReliableQueue, verb: str, claim: Claim) -> None:
    if verb == "requeue":
        await queue.requeue(claim)
    elif verb == "fail":
        await queue.fail(claim, "no")
    elif verb == "crash":
        await queue.crash(claim, "killed")
    elif verb == "delayed":
        await queue.requeue(claim, delay=1)
        await move_clock(queue, 2)
        await queue.reap()
    else:
        await queue.fail(claim, "no", permanent=True)
        await queue.requeue_failed()


async def test_each_client_has_its_own_order(queue: ReliableQueue, other_worker: ReliableQueue) -> None:
    clients = ("ann", "bob", None)
    await queue.enqueue_many([NewItem(f"{client}{n}", client=client) for n in range(4) for client in clients])
    before = await waiting(queue)
    claims = [claim for turn in range(9) for claim in await claimed((queue, other_worker)[turn % 2], 1)]
    assert texts(claims) == before[:9]
    for claim in [*claims[1::2], *reversed(claims[::2])]:
        await queue.unclaim(claim)
    after = await waiting(queue)
    for client in clients:
        assert [text for text in after if text.startswith(str(client))] == [f"{client}{n}" for n in range(4)]


async def test_a_client_without_items_has_the_next_turn_again(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("ann0", client="ann"), NewItem("ann1", client="ann")])
    await queue.enqueue_many([NewItem(f"bob{n}", client="bob") for n in range(3)])
    claims = await claimed(queue, 3)
    assert texts(claims) == ["ann0", "bob0", "ann1"]
    await queue.unclaim(claims[0])
    await queue.unclaim(claims[2])
    assert await waiting(queue) == ["ann0", "bob1", "ann1", "bob2"]


async def test_bare_payloads_come_back_in_order(queue: ReliableQueue, server: Server) -> None:
    server.call("LPUSH", "cq:{q}:main", "x", "y", "z")
    first, second = await claimed(queue, 1), await claimed(queue, 1)
    await queue.unclaim(first)
    await queue.unclaim(second)
    assert await waiting(queue) == ["x", "y", "z"]


async def test_items_that_crashed_a_worker_come_back_in_order(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("abc"))
    await queue.crash(await claimed(queue, 3), "killed")
    claims = [claim for _ in range(3) for claim in await claimed(queue, 3)]
    for claim in (claims[1], claims[2], claims[0]):
        assert verdicts(await queue.unclaim(claim)) == ["unclaimed"]
    assert await waiting(queue) == list("abc")


async def test_an_item_behind_more_than_a_call_reads_stands_behind_those_it_read(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many([str(number) for number in range(MERGED + 20)])
    early = await claimed(queue, 1000) + await claimed(queue, 10)
    late = await claimed(other_worker, 1)
    await queue.unclaim(early)
    await other_worker.unclaim(late)
    order = [int(item.text) for item in await queue.peek(5000)]
    fresh = list(range(MERGED + 11, MERGED + 20))
    assert order == [*range(MERGED), MERGED + 10, *range(MERGED, MERGED + 10), *fresh]


async def test_a_call_reads_a_bounded_number_of_bytes_to_restore_the_order(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    large = "x" * (2**20 - 2)
    await queue.enqueue_many([f"{number}{large}" for number in range(10)])
    early: list[Claim] = []
    while len(early) < 9:  # a claim is bounded by bytes too
        early += await claimed(queue, 9 - len(early))
    late = await claimed(other_worker, 1)
    await queue.unclaim(early)
    await other_worker.unclaim(late)
    assert [item.text[0] for item in await queue.peek(10)] == list("0192345678")


async def test_a_giver_back_without_neighbours_reads_one_item(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue_many(list("abc"))
    await queue.unclaim(await claimed(queue, 1))
    claims = await claimed(queue, 2)
    server.call("CONFIG", "RESETSTAT")
    await queue.unclaim(claims)
    assert "cmdstat_lindex:calls=1," in str(server.call("INFO", "commandstats"))
