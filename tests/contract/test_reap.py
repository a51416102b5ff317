"""reap: one bounded sweep over expired leases and due items, by any process, in any number at once."""

import asyncio

import pytest

import claimq
from claimq import NewItem, OnExpiry, Policy, ReliableQueue, State, Verdict
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts, verdicts, waiting
from testkit.queues.retries import retrying_at_once
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def test_an_expired_claim_goes_back_to_main_counted_as_a_crash(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    (claim,) = await queue.claim(wait=0)
    await move_clock(queue, 31)
    reaped = await queue.reap()
    (outcome,) = reaped.expired
    assert (outcome.token, outcome.id, outcome.verdict) == (claim.token, claim.item.id, Verdict.REQUEUED)
    assert (reaped.due, reaped.repaired, reaped.more) == (0, 0, False)
    (item,) = await queue.peek()
    assert (item.crash_count, item.requeue_count, item.fail_count) == (1, 1, 0)
    assert item.last_error == "the lease of w1 ran out"
    assert [entry.kind for entry in item.history] == ["expired"]
    stats = await queue.stats()
    assert (stats["expired"], stats["crashes"], stats["requeued"]) == (1, 1, 1)


async def test_nothing_expires_before_its_time(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.claim(wait=0)
    await move_clock(queue, 29)
    assert (await queue.reap()).expired == ()
    assert await lengths(queue) == Lengths(busy=1)


async def test_an_expired_claim_counts_against_the_limit(strict: ReliableQueue) -> None:
    await strict.enqueue("poison")
    said: list[str] = []
    while await strict.claim(wait=0):
        await move_clock(strict, 31)
        said += verdicts((await strict.reap()).expired)
    assert said == ["requeued", "failed"]
    (located,) = await strict.failed_items()
    assert located.item.crash_count == 2


@pytest.mark.parametrize(
    ("on_expiry", "verdict", "after"),
    [
        (OnExpiry.REQUEUE, "requeued", Lengths(main=1)),
        (OnExpiry.DROP, "dropped", Lengths()),
        (OnExpiry.FAIL, "failed", Lengths(failed=1)),
    ],
)
async def test_on_expiry_says_what_becomes_of_it(
    queue: ReliableQueue, on_expiry: OnExpiry, verdict: str, after: Lengths
) -> None:
    await queue.enqueue("a")
    await queue.claim(wait=0)
    await queue.set_policy(Policy(on_expiry=on_expiry))  # also for what is claimed already
    await move_clock(queue, 31)
    reaped = await queue.reap()
    assert verdicts(reaped.expired) == [verdict]
    assert reaped.expired[0].id is not None
    assert await lengths(queue) == after
    assert (await queue.stats())[verdict] == 1


async def test_on_expiry_says_nothing_about_failures(queue: ReliableQueue) -> None:
    await queue.set_policy(retrying_at_once(on_expiry=OnExpiry.DROP))
    await queue.enqueue("a")
    assert verdicts(await queue.fail(await queue.claim(wait=0), "no")) == ["requeued"]
    assert verdicts(await queue.crash(await queue.claim(wait=0), "no")) == ["requeued"]


async def test_an_item_whose_claim_expired_waits_from_the_second_time_on(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    for verdict in ("requeued", "delayed"):
        await queue.claim(wait=0)
        await move_clock(queue, 31)
        assert verdicts((await queue.reap()).expired) == [verdict]
    assert await lengths(queue) == Lengths(delayed=1)


async def test_due_items_go_to_the_tail_of_main(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("a", delay=1), NewItem("b", delay=2), NewItem("c", delay=99)])
    await queue.enqueue("now")
    await move_clock(queue, 3)
    reaped = await queue.reap()
    assert (reaped.due, reaped.more) == (2, False)
    assert await waiting(queue) == ["now", "a", "b"]
    assert (await queue.stats())["due"] == 2


async def test_a_sweep_handles_its_limit_and_says_that_there_is_more(queue: ReliableQueue) -> None:
    await queue.enqueue_many([str(number) for number in range(20)])
    await queue.claim(20, wait=0)
    await queue.enqueue_many([NewItem("due", delay=1)] * 10)
    await move_clock(queue, 31)
    handled: list[int] = []
    more = True
    while more:
        reaped = await queue.reap(8)
        handled.append(len(reaped.expired) + reaped.due)
        more = reaped.more
    assert handled == [8, 8, 8, 6]
    assert await lengths(queue) == Lengths(main=30)


async def test_expired_items_return_in_the_order_of_claiming(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(list("abcdefghijklmnop"))
    for number in range(16):
        await (queue, other_worker)[number % 2].claim(wait=0)
    await move_clock(queue, 31)
    await queue.reap()
    assert texts(await queue.peek(99)) == list("abcdefghijklmnop")


async def test_many_reapers_at_once_handle_each_item_once(store: claimq.Server, queue: ReliableQueue) -> None:
    await queue.enqueue_many([str(number) for number in range(200)])
    await queue.claim(200, wait=0)
    await queue.enqueue_many([NewItem("due", delay=1)] * 50)
    await move_clock(queue, 31)
    sweeps = await asyncio.gather(*(store.queue("q").reap(30) for _ in range(20)))
    tokens = [outcome.token for reaped in sweeps for outcome in reaped.expired]
    assert len(tokens) == len(set(tokens)) == 200
    assert sum(reaped.due for reaped in sweeps) == 50
    assert await lengths(queue) == Lengths(main=250)


async def test_a_holder_and_a_reaper_race_and_one_of_them_wins(
    store: claimq.Server, queue: ReliableQueue
) -> None:
    for number in range(40):
        await queue.enqueue(str(number))
        (claim,) = await queue.claim(wait=0)
        await move_clock(queue, 31)
        renewed, reaped = await asyncio.gather(queue.renew(claim), store.queue("q").reap())
        won_by_holder = verdicts(renewed) == ["renewed"]
        assert won_by_holder == (reaped.expired == ())
        assert verdicts(await queue.done(claim)) == (["done"] if won_by_holder else ["lost"])
        await queue.flush()


async def test_a_sweep_of_an_idle_queue_changes_nothing_but_when_it_was_served(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    before = (await queue.snapshot()).seq
    for _ in range(5):
        reaped = await queue.reap()
        assert (reaped.expired, reaped.due, reaped.repaired, reaped.more) == ((), 0, 0, False)
    assert (await queue.snapshot()).seq == before


async def test_a_foreign_lease_that_names_no_worker_is_removed_and_stops_no_sweep(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("a")
    await queue.claim(wait=0)
    await queue.enqueue("later", delay=1)
    server.call("ZADD", "cq:{q}:leases", 1, "x", 2, "", 3, "/", 4, "no number/")
    await move_clock(queue, 31)
    reaped = await queue.reap()
    assert (reaped.expired, reaped.due, reaped.repaired, reaped.more) == ((), 1, 4, True)
    reaped = await queue.reap()
    assert (verdicts(reaped.expired), reaped.repaired, reaped.more) == (["requeued"], 0, False)
    assert await lengths(queue) == Lengths(main=2)


async def test_a_sweep_of_a_queue_that_never_was_is_no_error(store: claimq.Server) -> None:
    reaped = await store.queue("never").reap()
    assert (reaped.expired, reaped.due, reaped.repaired, reaped.more) == ((), 0, 0, False)


async def test_a_queue_that_has_been_left_alone_is_reaped_after_its_grace(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.claim(wait=0)
    await move_clock(queue, 3600, gap=True)
    assert (await queue.reap()).expired == ()
    await move_clock(queue, 10.1)
    assert len((await queue.reap()).expired) == 1


async def test_clients_keep_their_order_and_their_names(queue: ReliableQueue) -> None:
    await queue.enqueue_many(
        [NewItem(f"{client}{n}", client=client) for n in range(2) for client in ("ann", "bob")]
    )
    await queue.claim(4, wait=0)
    await move_clock(queue, 31)
    await queue.reap()
    assert [(item.text, item.client) for item in await queue.peek(9)] == [
        ("ann0", "ann"), ("bob0", "bob"), ("ann1", "ann"), ("bob1", "bob"),
    ]  # fmt: skip
    assert await queue.length(State.MAIN) == 4
    assert texts(await queue.claim(wait=0)) == ["ann0"]
