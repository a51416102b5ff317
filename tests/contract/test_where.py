"""Why an item waits, and how many come before it."""

import random
import re
from collections.abc import Awaitable, Callable

import pytest

from claimq import Between, Claim, Item, Limit, NewItem, ReliableQueue, State, WaitReason, Where
from claimq.errors import SearchEnded
from claimq.redis_store.scripts import Arg
from claimq.waiting.reasons import waiting_counts
from testkit.queues.clock import move_clock
from testkit.queues.script_calls import run
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def place_of(queue: ReliableQueue, item_id: str) -> Where:
    where = await queue.where(item_id)
    assert where is not None
    assert where.located.item.id == item_id
    return where


async def a_waiting_worker(queue: ReliableQueue, server: Server) -> None:
    """A worker that was seen, and has taken the wake token."""
    for claim in await queue.claim(1, wait=0):
        await queue.unclaim(claim)
    server.call("DEL", "cq:{q}:wake")


async def test_an_item_that_is_not_due_waits_for_its_time(queue: ReliableQueue) -> None:
    await queue.enqueue(b"x", id="late", delay=60)
    now = (await queue.snapshot()).now
    where = await place_of(queue, "late")
    assert where.reason is WaitReason.NOT_DUE
    assert where.until == pytest.approx(now + 60)
    assert where.text.startswith("not due until 20")
    assert (where.ahead, where.ahead_of_all) == (None, None)


async def test_a_due_item_comes_behind_all_of_its_client(queue: ReliableQueue) -> None:
    await queue.enqueue(b"x", id="late", client="acme", delay=60)
    await queue.enqueue_many([NewItem(b"x", client="acme"), NewItem(b"x", client="acme"), NewItem(b"x")])
    await move_clock(queue, 61)
    where = await place_of(queue, "late")
    assert (where.ahead, where.ahead_of_all) == (Between(2, 2), Between(2, 3))


@pytest.mark.parametrize("number", ["-1000", "nan", "0"])
async def test_a_wrong_count_of_items_gives_no_negative_number_ahead(
    server: Server, queue: ReliableQueue, number: str
) -> None:
    await queue.enqueue_many([NewItem(b"x", client="acme", id=f"i{place}") for place in range(3)])
    await queue.enqueue(b"x", id="without")
    now = (await queue.snapshot()).now
    server.call("HSET", "cq:{q}:stats", "client_items", number)
    without = await queue.where("without")
    last = await queue.where("i2", client="acme", enqueued_at=now)
    assert without is not None
    assert last is not None
    assert (without.ahead_of_all, last.ahead_of_all) == (Between(0, 0), Between(2, 2))


async def test_a_pause_names_who_why_and_until_when(queue: ReliableQueue) -> None:
    await queue.enqueue(b"x", id="one")
    await queue.pause(reason="the supplier is down", by="ana", until=4_000_000_000)
    where = await place_of(queue, "one")
    assert (where.reason, where.until) == (WaitReason.PAUSED, 4_000_000_000)
    assert where.text.startswith("the queue is paused by ana since 20")
    assert where.text.endswith(" until 2096-10-02T07:06:40Z (the supplier is down)")


async def test_a_busy_key_names_the_item_and_its_holder(queue: ReliableQueue) -> None:
    await queue.enqueue(b"x", id="first", key="k")
    await queue.enqueue(b"x", id="second", key="k")
    [claim] = await queue.claim(1, wait=0)
    for _ in range(2):  # before and after a claim has found the key busy
        where = await place_of(queue, "second")
        assert where.reason is WaitReason.KEY_BUSY
        assert where.text == f"its key k is busy: {claim.worker} has the item first with it"
        assert await queue.claim(1, wait=0) == []
    assert waiting_counts(await queue.snapshot())["key_busy"] == 1
    await queue.enqueue(b"x", id="later", key="k", delay=3600)
    assert (await place_of(queue, "later")).reason is WaitReason.NOT_DUE
    await queue.done(claim)
    assert (await place_of(queue, "second")).reason is not WaitReason.KEY_BUSY


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (
            Limit("licences", busy=1),
            "the limit licences of the queue is reached until an item in progress ends",
        ),
        (Limit("api", rate="1/h"), "the limit api of the queue is reached; the next item may start at 20"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_a_limit_that_is_reached_is_named(queue: ReliableQueue, limit: Limit, text: str) -> None:
    await queue.update_policy(limits=[limit])
    await queue.enqueue_many([NewItem(b"x", id="one"), NewItem(b"x", id="two")])
    await queue.claim(1, wait=0)
    where = await place_of(queue, "two")
    assert where.reason is WaitReason.LIMIT
    assert where.text.startswith(text)
    now = (await queue.snapshot()).now
    assert where.until == (pytest.approx(now + 3600, abs=0.1) if limit.rate else None)


async def test_the_limit_that_is_reached_is_named_of_several(queue: ReliableQueue) -> None:
    await queue.update_policy(
        limits=[Limit("wide", busy=5), Limit("api", rate="9/s"), Limit("narrow", busy=1)]
    )
    await queue.enqueue_many([NewItem(b"x", id="one"), NewItem(b"x", id="two")])
    await queue.claim(1, wait=0)
    assert "the limit narrow of the queue" in (await place_of(queue, "two")).text


async def test_without_a_worker_each_item_waits_for_one(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(b"x", id="one"), NewItem(b"x", id="two")])
    for item_id in ("one", "two"):
        where = await place_of(queue, item_id)
        assert (where.reason, where.text) == (WaitReason.NO_WORKER, "no worker has asked for items lately")


async def test_with_busy_workers_the_next_item_waits_for_one(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(b"x", id=f"{number}") for number in range(3)])
    await queue.claim(1, wait=0)
    assert (await place_of(queue, "1")).text == "no worker is free"
    where = await place_of(queue, "2")
    assert (where.reason, where.text) == (WaitReason.BEHIND, "behind 1 item without a client")


async def test_the_next_item_is_about_to_start_where_a_worker_waits(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue(b"x", id="one", client="acme")
    await a_waiting_worker(queue, server)
    assert (await place_of(queue, "one")).reason is WaitReason.ABOUT_TO_START


async def test_items_in_progress_and_failed_ones_wait_for_nothing(queue: ReliableQueue) -> None:
    await queue.enqueue(b"x", id="one")
    [claim] = await queue.claim(1, wait=0)
    where = await place_of(queue, "one")
    assert (where.located.state, where.reason, where.text) == (State.BUSY, None, "")
    await queue.fail(claim, "no", permanent=True)
    where = await place_of(queue, "one")
    assert (where.located.state, where.reason) == (State.FAILED, None)
    assert await queue.where("another") is None


async def test_a_search_of_the_first_items_says_that_there_are_more(queue: ReliableQueue) -> None:
    last = (await queue.enqueue_many([NewItem(b"x") for _ in range(2502)])).ids[-1]
    with pytest.raises(SearchEnded):
        await queue.where(last, everywhere=False)
    assert (await place_of(queue, last)).ahead == Between(2501, 2501)


async def claimed_before(queue: ReliableQueue, item_id: str) -> list[Item]:
    """The items that are claimed before this one."""
    before: list[Item] = []
    while claims := await queue.claim(1, wait=0):
        if claims[0].item.id == item_id:
            return before
        before.append(claims[0].item)
    raise AssertionError(f"{item_id} was not claimed")


@pytest.mark.parametrize("seed", range(6))
async def test_so_many_of_its_client_and_priority_are_claimed_before(queue: ReliableQueue, seed: int) -> None:
    choose = random.Random(seed)
    ends: list[Callable[[Claim], Awaitable[object]]] = [queue.done, queue.unclaim, queue.requeue]
    for number in range(60):
        client, priority = choose.choice([None, "a", "b"]), choose.choice(["normal", "normal", "high", "low"])
        await queue.enqueue(b"x", id=f"{number}", client=client, priority=priority)
        if choose.random() < 0.3:
            claims = await queue.claim(3, wait=0)
            choose.shuffle(claims)
            for claim in claims:
                await choose.choice(ends)(claim)
        if number % 9 == 8 and (chosen := await queue.claim_item(f"{choose.randrange(number + 1)}")):
            await choose.choice(ends)(chosen)
    waiting = await queue.items(State.MAIN, 100)
    item = choose.choice(waiting).item
    where = await place_of(queue, item.id)
    assert where.ahead is not None
    assert where.ahead_of_all is not None
    before = await claimed_before(queue, item.id)
    of_line = [other for other in before if (other.client, other.priority) == (item.client, item.priority)]
    assert where.ahead == Between(len(of_line), len(of_line))
    assert where.ahead_of_all.least <= len(before) <= where.ahead_of_all.most


@pytest.mark.parametrize("seed", range(4))
async def test_an_item_that_is_sought_by_its_instant_has_its_exact_place(
    queue: ReliableQueue, seed: int
) -> None:
    choose = random.Random(seed)
    for number in range(150):
        priority = choose.choice(["normal", "normal", "high"])
        await queue.enqueue(b"x", id=f"{number}", client=choose.choice([None, "a"]), priority=priority)
        if choose.random() < 0.7:
            await move_clock(queue, choose.choice([0.001, 0.02, 3]))
        if choose.random() < 0.1:
            claims = await queue.claim(3, wait=0)
            await queue.unclaim(claims[1:])
            await queue.requeue(claims[:1])
    by_instant = 0
    for located in await queue.items(State.MAIN, 200):
        item = located.item
        exact = await place_of(queue, item.id)
        for enqueued_at in (None, item.enqueued_at):
            where = await queue.where(item.id, client=item.client, enqueued_at=enqueued_at, everywhere=False)
            assert where == exact
        words: list[Arg] = [item.id, "main", item.client or "-", "", round(item.enqueued_at * 1000)]
        reply = await queue._connection.run("where", [queue._keys.main], words)
        by_instant += reply[0] == b"OK"
    assert by_instant > 100


async def test_an_item_in_the_middle_of_many_is_found_in_one_call(
    queue: ReliableQueue, server: Server
) -> None:
    for number in range(40):
        await queue.enqueue_many([NewItem(b"x", id=f"{number}-{at}", client="acme") for at in range(100)])
        await move_clock(queue, 0.5)
    await queue.where("0-0", client="acme")  # loads the script
    server.call("CONFIG", "RESETSTAT")
    where = await queue.where("21-50", client="acme", everywhere=False)
    assert where is not None
    assert where.ahead == Between(2150, 2150)
    calls = server.call("INFO", "commandstats")
    assert "cmdstat_evalsha:calls=1," in str(calls)


async def places_read(queue: ReliableQueue, server: Server, item_id: str, client: str) -> tuple[int, int]:
    """How many items of its client are before it, and how many items of main one call read to find out."""
    server.call("CONFIG", "RESETSTAT")
    reply = await run(queue, "where", item_id, "main", client, "", "")
    calls = server.call("INFO", "commandstats")
    counts = re.findall(r"cmdstat_(?:lindex|lrange):calls=(\d+)", str(calls))
    return int(reply[4]), sum(map(int, counts))


@pytest.mark.parametrize("number", [0, 499, 999])
async def test_an_item_of_the_largest_enqueue_is_found_at_once(
    queue: ReliableQueue, server: Server, number: int
) -> None:
    """Its items have one instant."""
    for batch in "abc":
        await queue.enqueue_many([NewItem(b"x", id=f"{batch}-{at}", client="acme") for at in range(1000)])
        await move_clock(queue, 0.001)
    assert await places_read(queue, server, f"b-{number}", "acme") == (1000 + number, 1)


async def test_an_item_among_those_of_other_clients_is_found_with_few_reads(
    queue: ReliableQueue, server: Server
) -> None:
    """Items of all clients come in the same calls; later ones are gone, and the first one was given back."""
    clients = ["a", "a", "b", "c"]
    for batch in range(4):
        await queue.enqueue_many(
            [NewItem(b"x", id=f"{batch}-{at}", client=clients[at % 4]) for at in range(1000)]
        )
        await move_clock(queue, 0.01)
    await queue.unclaim(await queue.claim(3, wait=0))
    for number, before in ((0, 500), (401, 701), (997, 999)):
        ahead, reads = await places_read(queue, server, f"1-{number}", "a")
        assert ahead == before
        assert reads <= 14
