"""Some slots are kept free for clients that use little, while one of them had work lately."""

import random
from typing import cast

import pytest

import claimq
from claimq import NewItem, ReliableQueue
from claimq.internals.next_claims import next_claims
from testkit.queues.frozen_clock import FrozenClock
from testkit.queues.script_calls import run
from testkit.queues.slots import Slots
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
HEAVY = ("a", "b", "c")
LONG, SHORT = 100_000, 1_000
TEN_MINUTES = 600_000


def clock_of(queue: ReliableQueue) -> FrozenClock:
    clock = queue._connection.clients.shared
    assert isinstance(clock, FrozenClock)
    return clock


def workers(queue: ReliableQueue, slots: int) -> Slots:
    service = dict.fromkeys((*HEAVY, "-"), LONG) | {"quiet": SHORT}
    return Slots(queue, clock_of(queue), service, slots)


async def fill(queue: ReliableQueue, *clients: str | None, count: int = 150) -> None:
    await queue.update_policy(busy_expiry=TEN_MINUTES)
    await queue.enqueue_many([NewItem(f"{n}", client=client) for n in range(count) for client in clients])


def busy(slots: Slots) -> int:
    """How many of the items in progress are of others than the quiet client."""
    return sum(claim.item.client != "quiet" for _, _, claim in slots.busy)


async def quiet_item(slots: Slots, wait: int = 0) -> None:
    await slots.run(wait)
    await slots.queue.enqueue("quiet", client="quiet")


async def work_with_a_quiet_client(queue: ReliableQueue, slots: Slots) -> set[int]:
    """Returns how many slots the heavy clients fill after its first item, each time when another one comes."""
    await slots.run(2 * LONG + 1)
    await quiet_item(slots)
    await slots.run(2 * LONG)
    slots.waits.clear()
    filled = set[int]()
    for _ in range(20):
        await quiet_item(slots, 3_300)
        filled.add(busy(slots))
    await slots.run(SHORT + 1)
    return filled


async def ten_slots_with_a_reserve(queue: ReliableQueue) -> Slots:
    """Ten slots, which the heavy clients have filled but for the one that is kept."""
    await fill(queue, *HEAVY)
    slots = workers(queue, 10)
    await work_with_a_quiet_client(queue, slots)
    return slots


@pytest.mark.parametrize(("slots", "left"), [(10, 1), (19, 1), (20, 2), (45, 4)])
async def test_heavy_clients_leave_a_tenth_of_the_slots_free(
    queue: ReliableQueue, slots: int, left: int
) -> None:
    await fill(queue, *HEAVY)
    crew = workers(queue, slots)
    assert await work_with_a_quiet_client(queue, crew) == {slots - left}
    assert crew.waits["quiet"] == [0] * 20


async def test_items_without_a_client_leave_slots_free_too(queue: ReliableQueue) -> None:
    await fill(queue, None)
    slots = workers(queue, 10)
    assert await work_with_a_quiet_client(queue, slots) == {9}
    assert slots.waits["quiet"] == [0] * 20


async def test_a_single_heavy_client_in_levels_leaves_slots_free(queue: ReliableQueue) -> None:
    await fill(queue, "a")
    await queue.enqueue("low", client="a", priority="low")
    assert await work_with_a_quiet_client(queue, workers(queue, 10)) == {9}


@pytest.mark.parametrize("seed", range(3))
async def test_heavy_clients_never_fill_the_reserve(queue: ReliableQueue, seed: int) -> None:
    chance = random.Random(seed)
    await fill(queue, *HEAVY)
    slots = workers(queue, chance.randrange(10, 40))
    slots.service = {client: chance.randrange(20_000, 200_000) for client in HEAVY} | {"quiet": SHORT}
    await slots.run(400_000)
    await quiet_item(slots)
    await slots.run(400_000)
    waits = slots.waits.pop("quiet")
    for _ in range(60):
        if chance.random() < 0.5:
            await queue.enqueue("more", client=chance.choice(HEAVY))
        await quiet_item(slots, round(chance.expovariate(0.3 / SHORT)))
        assert busy(slots) <= slots.slots - slots.slots // 10, waits
    assert max(slots.waits["quiet"]) <= 4 * SHORT


async def test_instances_of_a_worker_count_each(server: Server, queue: ReliableQueue) -> None:
    slots = await ten_slots_with_a_reserve(queue)
    server.call("HSET", "cq:{q}:slots", "another w1", f"10 {slots.now}")
    await slots.run(5_000)
    assert len(await queue.claim(20, wait=0)) == 9, "20 slots, 2 of them kept, 9 in use"


async def test_fewer_than_ten_slots_are_all_filled(queue: ReliableQueue) -> None:
    await fill(queue, *HEAVY)
    assert 9 in await work_with_a_quiet_client(queue, workers(queue, 9))


async def test_a_reserve_of_zero_keeps_nothing_free(server: Server, queue: ReliableQueue) -> None:
    await fill(queue, *HEAVY)
    slots = workers(queue, 10)
    assert await work_with_a_quiet_client(queue, slots) == {9}
    await queue.update_policy(fairness_reserve=0)
    await slots.run(1)
    assert busy(slots) == 10
    assert not server.call("EXISTS", "cq:{q}:slots")


async def test_workers_that_do_not_name_their_slots_fill_all(queue: ReliableQueue) -> None:
    await fill(queue, *HEAVY)
    slots = workers(queue, 10)
    slots.is_named = False
    assert 10 in await work_with_a_quiet_client(queue, slots)


async def test_one_worker_without_named_slots_ends_the_reserve_for_a_minute(queue: ReliableQueue) -> None:
    slots = await ten_slots_with_a_reserve(queue)
    assert busy(slots) == 9
    connection, worker = queue._connection, (queue._keys.main, queue.worker)
    named = connection.slots.pop(worker)
    assert len(await queue.claim(1, wait=0)) == 1
    connection.slots[worker] = named
    assert len(await queue.claim(1, wait=0)) == 1
    await quiet_item(slots, 70_000)
    await slots.run(SHORT)
    await quiet_item(slots)
    assert await queue.claim(3, wait=0)
    assert not await queue.claim(3, wait=0)


async def test_ten_minutes_after_a_quiet_client_had_work_all_slots_are_filled(queue: ReliableQueue) -> None:
    slots = await ten_slots_with_a_reserve(queue)
    await slots.run(TEN_MINUTES - 50_000)
    assert busy(slots) == 9
    await slots.run(2 * LONG)
    assert busy(slots) == 10


async def test_repair_ends_no_turns_while_slots_are_kept_free(server: Server, queue: ReliableQueue) -> None:
    await fill(queue, "a")
    slots = workers(queue, 10)
    await work_with_a_quiet_client(queue, slots)
    for milliseconds, filled in ((TEN_MINUTES // 2, 9), (TEN_MINUTES // 2 - 50_000, 9), (2 * LONG, 10)):
        await run(queue, "repair", 100)
        await slots.run(milliseconds)
        assert busy(slots) == filled
    await run(queue, "repair", 100)
    assert server.call("HGET", "cq:{q}:stats", "turns") is None


async def test_workers_with_a_slot_each_are_counted_together(
    store: claimq.Server, queue: ReliableQueue
) -> None:
    slots = await ten_slots_with_a_reserve(queue)
    await queue.done([claim for _, _, claim in slots.busy])
    clock_of(queue).move("q", TEN_MINUTES // 40)  # the first worker counts no more
    crew = [store.queue("q", worker=f"w{n}") for n in range(2, 12)]
    assert [len(await worker.claim(1, wait=0, slots=1)) for worker in crew] == [1] * 9 + [0]
    await queue.enqueue("quiet", client="quiet")
    assert [claim.item.client for claim in await crew[-1].claim(1, wait=0, slots=1)] == ["quiet"]


async def test_a_worker_that_stops_counts_with_its_items(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    slots = await ten_slots_with_a_reserve(queue)
    assert len(await other_worker.claim(20, wait=0, slots=20)) == 18  # 30 slots, 3 of them kept, 9 in use
    assert not await queue.claim(1, wait=0)
    assert busy(slots) + 18 == 27
    clock_of(queue).move("q", 20_000)
    await queue.done([claim for _, _, claim in slots.busy][:2])
    assert len(await queue.claim(3, wait=0)) == 1, "28 slots count now, 2 of them kept, and 25 are in use"


async def test_the_kept_slot_is_filled_at_once_by_an_item_of_the_quiet_client(
    server: Server, queue: ReliableQueue
) -> None:
    await ten_slots_with_a_reserve(queue)
    server.call("DEL", "cq:{q}:wake")
    claimed = await queue._claim(1, 0)
    assert (claimed.claims, claimed.is_held_back) == ([], True)
    assert not server.call("LLEN", "cq:{q}:wake")
    await queue.enqueue("quiet", client="quiet")
    assert server.call("LLEN", "cq:{q}:wake") == 1
    assert [claim.item.client for claim in await queue.claim(5, wait=0)] == ["quiet"]


async def test_an_end_and_a_claim_in_one_call_leave_the_slot_free(queue: ReliableQueue) -> None:
    slots = await ten_slots_with_a_reserve(queue)
    ended = [claim for _, _, claim in slots.busy][:3]
    _, claims = await next_claims(queue).done_and_claim(ended, 4)
    assert len(claims) == 3
    assert queue._connection.rated[queue._keys.main], "nothing is claimed ahead"


async def test_where_names_the_kept_slots(queue: ReliableQueue) -> None:
    await ten_slots_with_a_reserve(queue)
    item = (await queue.peek(1))[0]
    where = await queue.where(item.id)
    assert where is not None
    assert (where.reason, where.text) == (
        "reserve",
        "1 free slot is kept for clients that use little (fairness_reserve)",
    )


@pytest.mark.parametrize("end", ["flush", "delete"])
async def test_flush_and_delete_remove_what_is_noted_of_slots(
    server: Server, queue: ReliableQueue, end: str
) -> None:
    await ten_slots_with_a_reserve(queue)
    assert server.call("EXISTS", "cq:{q}:slots")
    await (queue.flush() if end == "flush" else queue.delete())
    assert not server.call("EXISTS", "cq:{q}:slots")
    assert not server.call("HGET", "cq:{q}:stats", "reserve")


async def test_a_foreign_key_in_place_of_the_slots_stops_no_claim(
    server: Server, queue: ReliableQueue
) -> None:
    slots = await ten_slots_with_a_reserve(queue)
    server.call("DEL", "cq:{q}:slots")
    server.call("SET", "cq:{q}:slots", "foreign")
    server.call("HSET", "cq:{q}:stats", "reserve", "1 2 three")
    await slots.run(2 * LONG)
    assert busy(slots) == 10
    assert cast("bytes", server.call("TYPE", "cq:{q}:slots")) == b"string"
