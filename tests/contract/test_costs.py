"""Costs of items: limits with the unit cost count what the items cost that start."""

import math
from datetime import timedelta

import pytest

from claimq import Done, ItemTooCostly, Limit, NewItem, ReliableQueue
from claimq.waiting.reasons import WaitReason
from testkit.checkers.starts import RandomClaims, fullest
from testkit.queues.clock import move_clock
from testkit.queues.looking import lengths, texts
from testkit.queues.script_calls import claim_once
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
PER = pytest.mark.parametrize("per", ["queue", "client", "key"])
DAY = timedelta(days=1)


def limit(per: str = "queue", rate: str = "10/s", burst: int = 10) -> Limit:
    return Limit("api", rate=rate, burst=burst, per=per, unit="cost")


async def filled(queue: ReliableQueue, *limits: Limit, costs: str) -> None:
    """An item for each word: its letter is its client, and its key where limits are per key; its number its cost."""
    await queue.update_policy(limits=limits, busy_expiry=DAY)
    is_by_key = any(given.per == "key" for given in limits)
    for word in costs.split():
        cost = int(word[1:].partition("-")[0])
        await queue.enqueue(word, id=word, client=word[0], key=word[0] if is_by_key else None, cost=cost)


async def claimed(queue: ReliableQueue, count: int = 100) -> str:
    claims = await queue.claim(count, wait=0)
    await queue.done(claims)
    return " ".join(texts(claims))


async def started(queue: ReliableQueue, count: int = 100) -> str:
    """What claims start until none starts anything; each end lets the next item of a key go."""
    words = [await claimed(queue, count)]
    while words[-1]:
        words.append(await claimed(queue, count))
    return " ".join(filter(None, words))


@PER
@pytest.mark.parametrize("count", [1, 100])
async def test_items_start_until_their_costs_are_those_of_the_burst(
    queue: ReliableQueue, per: str, count: int
) -> None:
    await filled(queue, limit(per), costs="a4-1 a4-2 a4-3 a1-4")
    assert await started(queue, count) == "a4-1 a4-2"
    await move_clock(queue, 0.199)
    assert await started(queue, count) == ""
    await move_clock(queue, 0.001)
    assert await started(queue, count) == "a4-3"
    await move_clock(queue, 0.1)
    assert await started(queue, count) == "a1-4"


async def test_an_item_that_does_not_fit_holds_the_turn_of_the_queue(queue: ReliableQueue) -> None:
    await filled(queue, limit(), costs="a8-1 b8-2 c1-3")
    assert await started(queue) == "a8-1"
    await queue.enqueue("d1-4", client="d", cost=1)
    for _ in range(5):
        assert await started(queue) == ""
        await move_clock(queue, 0.1)
    await move_clock(queue, 0.1)
    assert (await started(queue))[:4] == "b8-2"


@pytest.mark.parametrize("others", ["", "a5-5"])
async def test_a_client_that_enters_waits_behind_an_item_that_holds_the_turn_by_time(
    queue: ReliableQueue, others: str
) -> None:
    await queue.update_policy(fairness_by="time", fairness_reserve=0)
    await filled(queue, limit(), costs="a1-1 b1-2 b1-3")
    for _ in range(3):  # their items take a second, so the client b is ahead by one
        (claim,) = await queue.claim(1, wait=0)
        await move_clock(queue, 1)
        await queue.done(claim)
    await filled(queue, limit(), costs=f"c9-4 {others}")
    await claimed(queue)
    await filled(queue, limit(), costs="b5-6")
    assert await started(queue) == ""
    await queue.enqueue("d1-7", client="d")
    await move_clock(queue, 0.4)
    assert (await started(queue)).split()[0] in ("a5-5", "b5-6")


@PER
async def test_an_item_past_its_deadline_costs_nothing(queue: ReliableQueue, per: str) -> None:
    await queue.update_policy(limits=[limit(per, rate="1/h")])
    await queue.enqueue("late", client="a", key="late", cost=5, deadline=timedelta(seconds=1))
    await filled(queue, limit(per, rate="1/h"), costs="a3-1 a5-2")
    await move_clock(queue, 2)
    assert await started(queue) == "a3-1 a5-2"


@pytest.mark.parametrize("per", ["client", "key"])
async def test_an_item_that_does_not_fit_holds_the_turn_of_its_client_or_key(
    queue: ReliableQueue, per: str
) -> None:
    await filled(queue, limit(per), costs="a8-1 a8-2 a1-3 b1-4")
    assert sorted((await started(queue)).split()) == ["a8-1", "b1-4"]
    await move_clock(queue, 0.5)
    await filled(queue, limit(per), costs="a1-5 b1-6")
    assert await started(queue) == "b1-6"
    await move_clock(queue, 0.1)
    assert await started(queue) == "a8-2"


async def test_large_items_that_do_not_fit_end_the_claim(queue: ReliableQueue) -> None:
    await filled(queue, limit("key"), costs="a8-1 b8-2 c8-3")
    assert len((await started(queue)).split()) == 3
    large = "x" * 1_000_000
    await queue.enqueue_many(NewItem(large, key=key, cost=5) for key in "abcabc")
    assert await queue.claim(10, wait=0) == []
    for _ in range(4):  # at the latest when all of the burst may start
        await move_clock(queue, 1)
        await started(queue)
    assert await lengths(queue) == (0, 0, 0, 0)


@PER
async def test_a_limit_of_items_holds_beside_one_of_costs(queue: ReliableQueue, per: str) -> None:
    few = Limit("few", rate="1/h", burst=3, per=per)
    await filled(queue, limit(per), few, costs="a2-1 a2-2 a2-3 a2-4")
    assert await started(queue) == "a2-1 a2-2 a2-3"
    await filled(queue, few, limit(per, rate="1/h", burst=100), costs="")
    await move_clock(queue, 3600)
    assert await started(queue) == "a2-4"


@PER
async def test_an_item_that_comes_back_before_its_app_began_gives_its_cost_back(
    queue: ReliableQueue, per: str
) -> None:
    await filled(queue, limit(per, rate="1/h"), costs="a7-1 a7-2")
    for _ in range(3):
        (claim,) = await queue.claim(10, wait=0)
        assert claim.item.text == "a7-1"
        await queue.unclaim(claim)
    (claim,) = await queue.claim(10, wait=0)
    await queue.requeue(claim)
    assert await started(queue) == ""


@PER
@pytest.mark.parametrize("own_id", [True, False])
async def test_an_item_that_could_never_start_is_refused(
    queue: ReliableQueue, per: str, own_id: bool
) -> None:
    await queue.update_policy(limits=[limit(per)])
    items = [
        NewItem("x", id=f"i{cost}" if own_id else None, client="a", key="k", cost=cost) for cost in (10, 11)
    ]
    with pytest.raises(
        ItemTooCostly, match="item 1 of this call costs 11, and the limit api lets 10 start at once"
    ):
        await queue.enqueue_many(items)
    await queue.enqueue(items[0].payload, client="a", key="k", cost=10)
    with pytest.raises(ItemTooCostly) as refusal:
        await queue.enqueue("x", client="a", key="k", cost=11)
    assert (refusal.value.cost, refusal.value.limit, refusal.value.name) == (11, 10, "api")
    assert await lengths(queue) == (1, 0, 0, 0)
    if per != "queue":
        await queue.enqueue("x", cost=11)


async def test_an_item_that_follows_and_one_of_many_calls_are_refused_too(queue: ReliableQueue) -> None:
    await filled(queue, limit(), costs="a1-1")
    claims = await queue.claim(1, wait=0)
    follower = NewItem("x", cost=11)
    with pytest.raises(ItemTooCostly):
        await queue.done([Done(claims[0], enqueue=[follower])])
    assert await lengths(queue) == (0, 1, 0, 0)
    with pytest.raises(ItemTooCostly, match="item 2000 "):
        await queue.enqueue_many([*(NewItem(f"{number}") for number in range(2000)), follower])
    assert await lengths(queue) == (0, 1, 0, 0)


async def test_an_item_is_refused_by_the_limit_that_holds_now(queue: ReliableQueue) -> None:
    await queue.update_policy(limits=[limit()])
    await queue.set_limit(limit(burst=20), until=timedelta(seconds=60))
    await queue.enqueue("x", cost=20)
    await move_clock(queue, 60)
    with pytest.raises(ItemTooCostly):
        await queue.enqueue("x", cost=20)


@PER
async def test_an_item_above_a_limit_that_was_lowered_starts_alone(queue: ReliableQueue, per: str) -> None:
    await filled(queue, limit(per, burst=50), costs="a2-1 a40-2 a1-3")
    await queue.update_policy(limits=[limit(per)])
    assert await started(queue) == "a2-1"
    await move_clock(queue, 0.2)
    assert await started(queue) == "a40-2"
    assert await started(queue) == ""
    await move_clock(queue, 0.1)
    assert await started(queue) == "a1-3"


@PER
async def test_a_claim_by_id_starts_at_once_and_counts(queue: ReliableQueue, per: str) -> None:
    await filled(queue, limit(per), costs="a6-1 a6-2 a4-3")
    assert await claimed(queue, 1) == "a6-1"
    chosen = await queue.claim_item("a6-2")
    assert chosen is not None
    await queue.done(chosen)
    await move_clock(queue, 0.5)
    assert await started(queue) == ""
    await move_clock(queue, 0.1)
    assert await started(queue) == "a4-3"


@PER
async def test_a_claim_by_id_that_is_the_first_under_a_limit_gives_its_cost_back(
    queue: ReliableQueue, per: str
) -> None:
    await filled(queue, limit(per), costs="a6-1 a4-2")
    chosen = await queue.claim_item("a6-1")
    assert chosen is not None
    await queue.unclaim(chosen)
    assert await started(queue) == "a6-1 a4-2"


async def test_an_item_keeps_its_cost_and_has_1_without(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("x", cost=1_000_000), NewItem("y"), NewItem("z", cost=1)])
    assert [item.cost for item in await queue.peek(3)] == [1_000_000, 1, 1]
    claims = await queue.claim(3, wait=0)
    await queue.fail(claims, "no", permanent=True)
    assert [located.item.cost for located in await queue.failed_items()] == [1_000_000, 1, 1]


@pytest.mark.parametrize("cost", [0, -1, 1_000_001, 1.5, "2"])
async def test_a_cost_that_is_none_is_refused(queue: ReliableQueue, cost: int) -> None:
    with pytest.raises((ValueError, TypeError), match="cost is"):
        await queue.enqueue("x", cost=cost)


@PER
async def test_a_claim_says_when_the_item_whose_turn_it_is_may_start(
    queue: ReliableQueue, server: Server, per: str
) -> None:
    await filled(queue, limit(per), costs="a8-1 a8-2")
    await started(queue)
    reply = await claim_once(queue, server, 1)
    assert int(reply[3]) - int(reply[1]) == 600


async def test_what_may_start_is_divided_by_the_mean_cost(queue: ReliableQueue) -> None:
    await filled(
        queue, limit(rate="100/s", burst=100), costs=" ".join(f"a5-{number}" for number in range(40))
    )
    claims = await queue.claim(10, wait=0)
    snapshot = await queue.snapshot()
    assert snapshot.limits is not None
    assert (snapshot.limits.startable, snapshot.limits.by_rate, snapshot.limits.cost) == (10, {"api": 10}, 5)
    assert snapshot.limits.useful_slots(2.0, 10) == 100 / 5 * 2 + 9
    assert len(claims) == 10


async def test_one_costly_item_moves_the_mean_cost_a_little(queue: ReliableQueue) -> None:
    await filled(queue, limit(rate="100/s", burst=100), costs="a5-1 a5-2 a15-3")
    for _ in range(3):
        assert len(await queue.claim(1, wait=0)) == 1
    limits = (await queue.snapshot()).limits
    assert limits is not None
    assert limits.cost == pytest.approx(5 + 0.03 * 10)


async def test_where_says_when_the_cost_of_an_item_fits(queue: ReliableQueue) -> None:
    for per in ("queue", "client", "key"):
        await queue.flush()
        await filled(queue, limit(per), costs=f"{per[0]}8-1 {per[0]}8-2")
        assert await started(queue) == f"{per[0]}8-1"
        where = await queue.where(f"{per[0]}8-2")
        now = (await queue.snapshot()).now
        assert where is not None
        assert where.reason is WaitReason.LIMIT
        assert where.until == pytest.approx(now + 0.6, abs=0.001)
        assert "starts alone" not in where.text
        await queue.update_policy(limits=[limit(per, burst=5)])
        where = await queue.where(f"{per[0]}8-2")
        assert where is not None
        assert where.text.endswith("; it costs 8, more than the 5 that may start at once, so it starts alone")


class RandomCosts(RandomClaims):
    """Random items, claims, ends and changes of the clock."""

    def __init__(self, queue: ReliableQueue, per: str, seed: int) -> None:
        super().__init__(queue, seed=f"{per} {seed}")
        self.queue, self.per = queue, per
        self.cost = 0

    async def step(self) -> None:
        match self.choose.randrange(6):
            case 0 | 1:
                await self.add()
            case 2 | 3:
                await self.claim(7)
            case 4 if self.held:
                await self.end()
            case _:
                await self.wait(0.01, 0.1, 0.7)

    async def add(self) -> None:
        choose = self.choose
        for _ in range(choose.randrange(1, 5)):
            name, other = choose.choice("abc"), choose.choice(["a", "b", None])
            client, key = (other, name) if self.per == "key" else (name, other)
            cost = choose.choice([1, 1, 2, 5, 9])
            self.cost += cost
            await self.queue.enqueue(
                "x", client=client, key=key, cost=cost,
                priority=choose.choice(["high", "normal", "normal", "low"]),
            )  # fmt: skip

    async def end(self) -> None:
        if self.choose.random() < 0.4:
            await self.unclaim()
        else:
            verdict = self.queue.done if self.choose.random() < 0.5 else self.queue.requeue
            await verdict(self.pop())


@PER
@pytest.mark.parametrize("seed", range(4))
async def test_in_every_window_the_costs_are_what_the_limit_allows(
    queue: ReliableQueue, per: str, seed: int
) -> None:
    limits = [limit(per), Limit("all", rate="8/s", burst=30, per=per, unit="cost")]
    await queue.update_policy(limits=limits, busy_expiry=DAY)
    work = RandomCosts(queue, per, seed)
    for _ in range(120):
        await work.step()
    for instants in work.instants(per, by_cost=True).values():
        assert fullest(instants, limits[0]) <= 10
        assert fullest(instants, limits[1]) <= 30
    await queue.done(work.held)
    for _ in range(math.ceil(work.cost / 8) + 10):  # each starts as soon as its cost fits
        await started(queue)
        await move_clock(queue, 1)
        await queue.reap()
    assert await lengths(queue) == (0, 0, 0, 0)
