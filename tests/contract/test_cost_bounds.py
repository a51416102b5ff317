"""Bounds on what items in progress cost: of the queue, of each client and of each key."""

import pytest

from claimq import Done, ItemTooCostly, Limit, NewItem, ReliableQueue
from claimq.internals.next_claims import next_claims
from claimq.model import Claim
from claimq.waiting.reasons import WaitReason
from testkit.queues.clock import move_clock
from testkit.queues.looking import end_by_lease, lengths, texts
from testkit.queues.script_calls import call, claim_once
from testkit.servers.server import Server
from testkit.workers.ends import ENDS, End

pytestmark = pytest.mark.frozen_clock(True)
PER = pytest.mark.parametrize("per", ["queue", "client", "key"])


def bound(per: str, busy: int = 10, name: str = "slots") -> Limit:
    return Limit(name, busy=busy, per=per, unit="cost")


async def add(queue: ReliableQueue, *limits: Limit, costs: str) -> None:
    """An item for each word: its letter is its client, and its key where limits are per key; its number its cost."""
    await queue.update_policy(limits=limits)
    is_by_key = any(limit.per == "key" for limit in limits)
    for word in costs.split():
        cost = int(word[1:].partition("-")[0])
        await queue.enqueue(word, id=word, client=word[0], key=word[0] if is_by_key else None, cost=cost)


async def claim(queue: ReliableQueue, count: int = 100) -> list[Claim]:
    """What claims start until none starts anything."""
    claims = await queue.claim(count, wait=0)
    while more := await queue.claim(count, wait=0):
        claims += more
    return claims


async def started(queue: ReliableQueue, count: int = 100) -> str:
    return " ".join(texts(await claim(queue, count)))


@PER
@pytest.mark.parametrize("count", [1, 100])
async def test_no_more_cost_is_in_progress_than_the_bound(queue: ReliableQueue, per: str, count: int) -> None:
    await add(queue, bound(per), costs="a4-1 a4-2 a4-3 a2-4 a1-5")
    first, second = await claim(queue, count)
    assert texts([first, second]) == ["a4-1", "a4-2"]
    await queue.done(second)
    assert await started(queue, count) == "a4-3 a2-4"
    await queue.done(first)
    assert await started(queue, count) == "a1-5"


@PER
async def test_an_item_that_does_not_fit_holds_its_turn(queue: ReliableQueue, per: str) -> None:
    await add(queue, bound(per), costs="a8-1 a8-2 a1-3 b1-4")
    (first, *others) = await claim(queue)
    assert texts([first, *others]) == ["a8-1", "b1-4"]
    await add(queue, bound(per), costs="a1-5 b1-6")
    assert await started(queue) == ("" if per == "queue" else "b1-6")
    await queue.done(first)
    assert (await started(queue)).split()[0] == "a8-2"


COST_ENDS: dict[str, End] = {
    **ENDS,
    "done, and enqueue": lambda queue, claims: queue.done(
        [Done(claim, [NewItem("next", client="a", cost=9)]) for claim in claims]
    ),
    "lease": lambda queue, _: end_by_lease(queue),
    "flush": lambda queue, _: flush(queue),
}


async def flush(queue: ReliableQueue) -> None:
    await queue.flush()
    await add(queue, *(await queue.policy()).limits, costs="a5-7 a5-8")


@PER
@pytest.mark.parametrize("end", list(COST_ENDS))
async def test_every_end_makes_room_and_wakes_a_waiting_claim(
    queue: ReliableQueue, server: Server, per: str, end: str
) -> None:
    await add(queue, bound(per), costs="a5-1 a5-2 a5-3 a5-4")
    claims = await claim(queue)
    assert texts(claims) == ["a5-1", "a5-2"]
    server.call("DEL", "cq:{q}:wake")
    await COST_ENDS[end](queue, claims)
    assert server.call("LLEN", "cq:{q}:wake") == 1
    assert len((await started(queue)).replace("next", "").split()) == 2


@PER
async def test_done_and_claim_makes_room_for_the_same_call(queue: ReliableQueue, per: str) -> None:
    await add(queue, bound(per), costs="a9-1 a9-2 a9-3")
    claims = await claim(queue)
    for word in ("a9-2", "a9-3"):
        _, claims = await next_claims(queue).done_and_claim(claims, 1)
        claims = claims or (
            await claim(queue) if per == "client" else []
        )  # its turn comes back after the call
        assert texts(claims) == [word]
        assert await started(queue) == ""


@PER
async def test_items_in_progress_before_the_bound_count(queue: ReliableQueue, per: str) -> None:
    await add(queue, Limit("slots", busy=100, per=per), costs="a6-1 a1-2 a3-3 a4-4 a2-5")
    claims = await queue.claim(2, wait=0)
    await add(queue, bound(per), costs="")
    third = await claim(queue)
    assert texts(third) == ["a3-3"]
    await add(queue, costs="")
    if per != "key":  # without a limit one of a key is busy
        assert texts(await queue.claim(1, wait=0)) == ["a4-4"]
    await add(queue, bound(per, 12), costs="")
    assert await started(queue) == ""
    await queue.done(claims)
    assert await started(queue) == ("a2-5" if per != "key" else "a4-4 a2-5")


@pytest.mark.parametrize("client", ["a", None])
async def test_items_in_progress_are_counted_in_several_calls(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server, client: str | None
) -> None:
    large = "x" * 900_000
    await queue.enqueue_many(NewItem(large, client=client) for _ in range(6))
    held = [0, 0]
    while sum(held) < 6:
        for at, worker in enumerate([queue, other_worker]):
            held[at] += len(await worker.claim(1, wait=0))
    await queue.enqueue_many(NewItem("x", client=client, cost=2) for _ in range(3))
    await queue.update_policy(limits=[bound("queue", 8)])
    assert (await claim_once(queue, server, 5))[0] == b"AGAIN"
    assert len(await claim(queue)) == 1
    assert held == [3, 3]


async def test_nothing_starts_while_parked_clients_are_many(queue: ReliableQueue, server: Server) -> None:
    """What is in progress is counted for a new bound after those have their turns that earlier limits parked."""
    names = [f"c{number}" for number in range(3100)]
    await queue.update_policy(limits=[Limit("api", rate="1/h", per="client")])
    await queue.enqueue_many(NewItem(name, client=name) for _ in range(2) for name in names)
    while claims := await queue.claim(500, wait=0):  # until all are parked
        await queue.done(claims)
    await queue.enqueue("x", cost=8)
    assert len(await queue.claim(1, wait=0)) == 1
    await queue.update_policy(limits=[Limit("api", rate="2/h", per="client")])
    await claim_once(queue, server, 1)
    await queue.enqueue("x", cost=9)
    await queue.update_policy(limits=[bound("queue")])
    assert sum(claim.item.cost for claim in await claim(queue)) <= 2


@PER
async def test_a_claim_by_id_without_the_bound_counts_when_the_bound_is_back(
    queue: ReliableQueue, per: str
) -> None:
    await add(queue, bound(per), costs="a5-1 a5-2 a5-3")
    (first,) = await queue.claim(1, wait=0)
    await add(queue, Limit("api", rate="1/h", burst=9, per=per), costs="")
    assert await queue.claim_item("a5-3") is not None
    await add(queue, bound(per), costs="")
    assert await started(queue) == ""
    await queue.done(first)
    assert await started(queue) == "a5-2"


async def test_a_claim_by_id_before_a_new_bound_is_counted_leaves_no_count(
    queue: ReliableQueue, server: Server
) -> None:
    await add(queue, Limit("few", busy=9, per="client"), costs="a1-1 a1-2")
    first = await queue.claim(1, wait=0)
    await add(queue, Limit("few", busy=9, per="client"), bound("queue"), costs="")
    chosen = await queue.claim_item("a1-2")
    assert chosen is not None
    await queue.done([*first, chosen])
    assert server.call("HGETALL", "cq:{q}:in_progress") == []


async def test_a_held_item_stays_held_until_it_fits(queue: ReliableQueue, server: Server) -> None:
    """Else each claim, end and repair would let it go and hold it again."""
    await add(queue, bound("key"), costs="a3-1 a3-2 a4-3")
    first, second, third = await claim(queue)
    await queue.done(third)
    await add(queue, bound("key"), costs="a8-4")
    assert await queue.claim(1, wait=0) == []
    assert (await lengths(queue), server.call("EXISTS", "cq:{q}:limited")) == ((0, 2, 1, 0), 0)
    await add(queue, bound("key"), costs="a4-6 a1-5")
    chosen = await queue.claim_item("a4-6")
    assert chosen is not None
    assert await queue.claim(1, wait=0) == []
    assert await lengths(queue) == (0, 3, 2, 0)
    await queue.done(first)
    assert await lengths(queue) == (0, 2, 2, 0)
    await queue.reap()
    await queue.pause(key="a")
    await queue.resume(key="a")
    assert (await lengths(queue), server.call("EXISTS", "cq:{q}:limited")) == ((0, 2, 2, 0), 0)
    await queue.done([second, chosen])
    assert await lengths(queue) == (1, 0, 1, 0)
    assert await started(queue) == "a8-4 a1-5"


async def test_a_client_at_its_bound_waits_for_an_end(queue: ReliableQueue, server: Server) -> None:
    await add(queue, bound("client"), costs="a8-1 a8-2")
    await claim(queue)
    reply = await claim_once(queue, server, 1)
    assert (reply[0], reply[3]) == (b"EMPTY", b"")


async def test_a_part_of_a_flush_makes_room(queue: ReliableQueue) -> None:
    await add(queue, bound("queue", 1010), costs="")
    await queue.enqueue_many(NewItem("x", cost=1 + number // 1000) for number in range(1005))
    assert len(await claim(queue, 1000)) == 1005
    await call(queue, "flush")
    await queue.enqueue_many([NewItem("y", cost=1000), NewItem("y")])
    assert await started(queue) == "y"


@PER
async def test_an_item_above_a_bound_that_was_lowered_starts_alone(queue: ReliableQueue, per: str) -> None:
    await add(queue, bound(per, 50), costs="a2-1 a40-2 a1-3")
    (first,) = await queue.claim(1, wait=0)
    await add(queue, bound(per), costs="")
    assert await started(queue) == ""
    await queue.done(first)
    (alone,) = await claim(queue)
    assert alone.item.text == "a40-2"
    await queue.done(alone)
    assert await started(queue) == "a1-3"


@PER
async def test_a_bound_that_is_raised_or_removed_lets_items_start(queue: ReliableQueue, per: str) -> None:
    await add(queue, bound(per), costs="a6-1 a6-2 a6-3 a6-4")
    assert await started(queue) == "a6-1"
    await add(queue, bound(per, 12), costs="")
    assert await started(queue) == "a6-2"
    await add(queue, Limit("slots", busy=100, per=per), costs="")
    assert await started(queue) == "a6-3 a6-4"


@PER
async def test_an_item_that_could_never_start_is_refused(queue: ReliableQueue, per: str) -> None:
    await queue.update_policy(limits=[bound(per)])
    await queue.enqueue("x", client="a", key="k", cost=10)
    with pytest.raises(ItemTooCostly, match="costs 11, and the limit slots lets 10 start at once") as refusal:
        await queue.enqueue("x", client="a", key="k", cost=11)
    assert (refusal.value.cost, refusal.value.limit, refusal.value.name) == (11, 10, "slots")
    assert await lengths(queue) == (1, 0, 0, 0)


@PER
async def test_a_claim_by_id_starts_at_once_and_counts(queue: ReliableQueue, per: str) -> None:
    await add(queue, bound(per), costs="a6-1 a6-2 a4-3")
    (first,) = await claim(queue)
    chosen = await queue.claim_item("a6-2")
    assert chosen is not None
    await queue.done(first)
    assert await started(queue) == "a4-3"
    await add(queue, bound(per), costs="a1-4")
    await queue.done(chosen)
    assert await started(queue) == "a1-4"


@PER
async def test_a_claim_that_is_lost_from_busy_holds_nothing_back(
    queue: ReliableQueue, server: Server, per: str
) -> None:
    await add(queue, bound(per), costs="a6-1 a6-2")
    (lost,) = await claim(queue)
    server.call("HDEL", "cq:{q}:busy:w1", lost.token)
    server.call("ZADD", "cq:{q}:leases", 1, lost.token)
    await queue.reap()
    await move_clock(queue, 30)
    await queue.reap()
    assert await started(queue) == "a6-2"


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("client", ["-", "a"])
async def test_a_pushed_payload_that_looks_like_a_costly_item_counts_1(
    queue: ReliableQueue, server: Server, client: str, count: int
) -> None:
    await add(queue, bound("queue"), bound("client", name="each"), costs="a6-1")
    for _ in range(3):  # it is none, since no key has a blank
        server.call("LPUSH", "cq:{q}:main", f'cq1 x 1 {client} {{"options":{{"key":"a b","cost":4}}}}\n')
    claims = await claim(queue, count)
    sums = server.call("HMGET", "cq:{q}:in_progress", "cost a", "cost -")
    assert (len(claims), sums) == (2, [b"6", b"7"])
    while claims:
        await queue.done(claims)
        claims = await claim(queue, count)
    assert server.call("HGETALL", "cq:{q}:in_progress") == []
    assert await lengths(queue) == (0, 0, 0, 0)


@pytest.mark.parametrize("text", ["text", "-5", "9223372036854775807", "9" * 30])
@PER
async def test_a_sum_that_another_client_has_written_loses_no_item(
    queue: ReliableQueue, server: Server, per: str, text: str
) -> None:
    await add(queue, bound(per), costs="a6-1 a6-2 b6-3 b6-4 b6-5")
    await queue.done(await queue.claim(1, wait=0))  # the bound is counted
    for _ in range(8):
        server.call("HSET", "cq:{q}:in_progress", "cost -", text, "cost a", text, "cost b", text)
        claims = await queue.claim(1, wait=0)
        server.call("HSET", "cq:{q}:in_progress", "cost -", text, "cost a", text, "cost b", text)
        await queue.done(claims)
        await move_clock(queue, 30)
        await queue.reap()
    assert await lengths(queue) == (0, 0, 0, 0)


@PER
async def test_where_names_the_bound(queue: ReliableQueue, per: str) -> None:
    await add(queue, bound(per), costs="a6-1 a6-2 a4-3")
    await claim(queue)
    where = await queue.where("a6-2")
    assert where is not None
    assert (where.reason, where.until) == (WaitReason.LIMIT, None)
    assert "the limit slots of" in where.text
    assert "ends" in where.text


async def test_slots_are_ordered_for_what_fits(queue: ReliableQueue) -> None:
    await add(queue, bound("queue", 20), costs=" ".join(f"a5-{number}" for number in range(9)))
    claims = await claim(queue)
    assert len(claims) == 4
    await queue.done(claims[0])
    now = (await queue.snapshot()).limits
    assert now is not None
    assert (now.startable, now.by_rate, now.cost, now.useful_slots(1.0, 3)) == (1, {"slots": 1}, 5, 4)


async def test_at_most_100_items_of_a_key_are_in_progress(queue: ReliableQueue) -> None:
    await add(queue, bound("key", 1000), costs=" ".join(f"a1-{number}" for number in range(120)))
    assert len(await claim(queue)) == 100
