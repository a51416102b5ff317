"""enqueue: a new item at the tail of main, or delayed; ids, lengths, several queues in one step."""

from typing import Any

import pytest

import claimq
from claimq import NewItem, Policy, ReliableQueue, State, StoreMisused
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts, waiting
from testkit.servers.contents import changes, contents
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def test_an_item_is_at_the_tail_of_main_and_the_reply_says_its_id_and_the_length(
    queue: ReliableQueue,
) -> None:
    first = await queue.enqueue("a")
    second = await queue.enqueue("b")
    assert (first.length, second.length) == (1, 2)
    assert first.is_duplicate is second.is_duplicate is False
    assert [item.id for item in await queue.peek(9)] == [first.id, second.id]
    assert await waiting(queue) == ["a", "b"]


async def test_many_items_keep_their_order_and_get_an_id_each(queue: ReliableQueue) -> None:
    done = await queue.enqueue_many([str(number) for number in range(2500)])
    assert done.length == 2500
    assert len(set(done.ids)) == 2500
    assert [item.id for item in await queue.peek(2500)] == list(done.ids)
    assert texts(await queue.peek(2500)) == [str(number) for number in range(2500)]


async def test_two_processes_never_make_the_same_id(queue: ReliableQueue) -> None:
    """The prefix is random and long enough; a look at its form is all that a test can do."""
    item_id = (await queue.enqueue("a")).id
    prefix, _, number = item_id.rpartition("-")
    assert len(prefix) == 12
    assert number.isdigit()


async def test_nothing_to_enqueue_is_no_error_and_returns_the_length(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    done = await queue.enqueue_many([])
    assert (done.ids, done.length) == ((), 1)


async def test_an_enqueue_to_no_queue_is_no_error(store: claimq.Server) -> None:
    assert await store.enqueue({}) == {}


@pytest.mark.parametrize(("client", "error"), [("", claimq.InvalidName), ([], TypeError), (0, TypeError)])
async def test_a_client_without_a_name_is_refused_and_named(
    queue: ReliableQueue, client: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="client"):
        await queue.enqueue("a", client=client)
    with pytest.raises(error, match="client"):
        await queue.enqueue_many([NewItem("a", client=client)])
    assert await queue.length() == 0


async def test_payloads_come_back_to_the_last_byte(queue: ReliableQueue) -> None:
    payloads = [b"", b"\x00\xff\r\n", b"cq1 x 1 - -\ny", "grün\n".encode(), bytes(range(256))]
    await queue.enqueue_many(payloads)
    assert [claim.item.payload for claim in await queue.claim(9, wait=0)] == payloads


@pytest.mark.frozen_clock(False)
async def test_times_are_the_servers(server: Server, queue: ReliableQueue) -> None:
    def time_of_server() -> float:
        time = server.call("TIME")
        assert isinstance(time, list)
        seconds, micros = (int(str(part, "ascii")) for part in time if isinstance(part, bytes))
        return seconds + micros / 1e6

    before = time_of_server()
    await queue.enqueue("a")
    (item,) = await queue.peek()
    assert before - 0.001 <= item.enqueued_at <= time_of_server(), "in whole milliseconds"
    assert item.first_enqueued_at == item.enqueued_at
    await move_clock(queue, 3600)
    await queue.enqueue("b")
    assert (await queue.peek(2))[1].enqueued_at - item.enqueued_at >= 3600


async def test_a_delayed_item_is_not_in_main_until_it_is_due(queue: ReliableQueue) -> None:
    done = await queue.enqueue("later", delay=1000)
    assert (bool(done.id), done.length) == (True, 0)
    assert await lengths(queue) == Lengths(delayed=1)
    assert await queue.claim(wait=0) == []
    await move_clock(queue, 500)
    assert await queue.claim(wait=0) == []
    await move_clock(queue, 501)
    assert texts(await queue.claim(wait=0)) == ["later"]


async def test_an_item_for_an_instant_is_due_at_that_instant(queue: ReliableQueue) -> None:
    now = (await queue.snapshot()).now
    await queue.enqueue("then", at=now + 100)
    (located,) = await queue.items(State.DELAYED)
    assert located.due_at == pytest.approx(now + 100, abs=0.002)
    await move_clock(queue, 101)
    assert texts(await queue.claim(wait=0)) == ["then"]


async def test_an_instant_in_the_past_is_due_at_once(queue: ReliableQueue) -> None:
    await queue.enqueue("then", at=1000.0)
    assert texts(await queue.claim(wait=0)) == ["then"]


async def test_a_due_item_stands_behind_what_waits_and_its_wait_begins_then(queue: ReliableQueue) -> None:
    await queue.enqueue("later", delay=10)
    created = (await queue.items(State.DELAYED))[0].item.enqueued_at
    await queue.enqueue("now")
    await move_clock(queue, 11)
    await queue.reap()
    assert await waiting(queue) == ["now", "later"]
    item = (await queue.peek(2))[1]
    assert item.enqueued_at - created >= 10
    assert item.first_enqueued_at == created


async def test_delayed_items_come_by_due_time_and_those_of_one_call_in_their_order(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue("third", delay=3)
    await queue.enqueue_many([NewItem(f"second{n}", delay=2) for n in range(30)])
    await queue.enqueue("first", delay=1)
    await move_clock(queue, 4)
    assert texts(await queue.claim(99, wait=0) or await queue.claim(99, wait=0))[:2] == ["first", "second0"]
    await queue.unclaim([located.name for located in await queue.items(State.BUSY)])
    assert await waiting(queue) == ["first", *(f"second{n}" for n in range(30)), "third"]


async def test_a_known_id_is_not_queued_twice_within_the_window(queue: ReliableQueue) -> None:
    first = await queue.enqueue("a", id="mine")
    again = await queue.enqueue("b", id="mine")
    assert first.id == again.id == "mine"
    assert (first.is_duplicate, again.is_duplicate) == (False, True)
    assert await waiting(queue) == ["a"]


@pytest.mark.parametrize("wherever", ["busy", "done", "failed", "delayed"])
async def test_a_known_id_is_not_queued_twice_wherever_its_item_is(
    queue: ReliableQueue, wherever: str
) -> None:
    await queue.enqueue("a", id="mine", delay=60 if wherever == "delayed" else None)
    claims = await queue.claim(wait=0)
    if wherever == "done":
        await queue.done(claims)
    if wherever == "failed":
        await queue.fail(claims, "no", permanent=True)
    before = await lengths(queue)
    assert (await queue.enqueue("b", id="mine")).is_duplicate
    assert await lengths(queue) == before


async def test_the_same_id_twice_in_one_call_is_queued_once(queue: ReliableQueue) -> None:
    done = await queue.enqueue_many(
        [NewItem("a", id="x"), NewItem("b", id="y", client="ann"), NewItem("c", id="x")]
    )
    assert done.ids == ("x", "y", "x")
    assert done.duplicates == ("x",)
    assert done.length == 2
    assert sorted(await waiting(queue)) == ["a", "b"]


async def test_an_id_is_forgotten_after_its_window(server: Server, queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(id_window=60))
    await queue.enqueue_many([NewItem("a", id=f"i{n}") for n in range(50)])
    await move_clock(queue, 59)
    assert (await queue.enqueue("b", id="i7")).is_duplicate
    await move_clock(queue, 2)
    assert not (await queue.enqueue("b", id="i7")).is_duplicate
    for _ in range(3):
        await queue.enqueue("c", id="another")
        await queue.reap(100)
    assert server.call("ZCARD", "cq:{q}:ids") == 2, "the old ones take no memory"


async def test_knowing_an_id_does_not_prolong_its_window(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(id_window=60))
    await queue.enqueue("a", id="mine")
    await move_clock(queue, 40)
    await queue.enqueue("a", id="mine")
    await move_clock(queue, 21)
    assert not (await queue.enqueue("a", id="mine")).is_duplicate


async def test_an_id_belongs_to_its_queue(store: claimq.Server, queue: ReliableQueue) -> None:
    await queue.enqueue("a", id="mine")
    assert not (await store.queue("other").enqueue("a", id="mine")).is_duplicate


async def test_two_failed_items_of_one_id_stand_beside_each_other(queue: ReliableQueue) -> None:
    """After its window an id may come again while the first item is still in failed."""
    await queue.set_policy(Policy(id_window=60))
    for payload in ("first", "second", "third"):
        await queue.enqueue(payload, id="mine")
        await queue.fail(await queue.claim(wait=0), payload, permanent=True)
        await move_clock(queue, 61)
    failed = await queue.failed_items()
    assert [(located.name, located.item.id, located.item.text) for located in failed] == [
        ("mine", "mine", "first"), ("mine#2", "mine", "second"), ("mine#3", "mine", "third"),
    ]  # fmt: skip
    second = await queue.remove_failed_item("mine#2")
    assert second is not None
    assert second.item.text == "second"
    assert await queue.requeue_failed_item("mine")
    assert await waiting(queue) == ["first"]
    assert [located.name for located in await queue.failed_items()] == ["mine#3"]


async def test_several_queues_get_their_items_in_one_step(store: claimq.Server, queue: ReliableQueue) -> None:
    other = store.queue("other")
    await other.enqueue("there already", id="known")
    done = await store.enqueue(
        {
            "q": ["a", NewItem("b", client="ann")],
            "other": [NewItem("c", id="known"), "d", NewItem("e", delay=5)],
        }
    )
    assert (done["q"].length, done["other"].length) == (2, 2)
    assert len(done["q"].ids) == 2
    assert done["q"].duplicates == ()
    assert done["other"].duplicates == ("known",)
    assert sorted(await waiting(queue)) == ["a", "b"]
    assert await waiting(other) == ["there already", "d"]
    assert await lengths(other) == Lengths(main=2, delayed=1)


async def test_every_enqueue_counts(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["a", NewItem("b", delay=9), NewItem("c", id="x"), NewItem("d", id="x")])
    snapshot = await queue.snapshot()
    assert snapshot.counters["enqueued"] == 3
    assert snapshot.seq == 1
    await queue.enqueue("e")
    assert (await queue.snapshot()).seq == 2


async def test_a_call_forgets_few_old_ids_of_each_of_many_queues(
    server: Server, store: claimq.Server
) -> None:
    """Sorted sets of old ids are freed in small parts, so that no call blocks the server for long."""
    names = [f"q{number}" for number in range(50)]
    for name in names:
        await store.queue(name).set_policy(Policy(id_window=60))
        old = [word for number in range(200) for word in (1000 + number, f"old{number}")]
        server.call("ZADD", f"cq:{{{name}}}:ids", *old)
    await store.enqueue({name: [NewItem("a", id="x"), NewItem("b", id="y", client="ann")] for name in names})
    assert [server.call("ZCARD", f"cq:{{{name}}}:ids") for name in names] == [200 - 4 + 2] * 50
    await store.queue("q0").enqueue("c", id="z")
    assert server.call("ZCARD", "cq:{q0}:ids") == 198 - 101 + 1


@pytest.mark.parametrize("due", ["x", "inf", "nan", "+", "+x", "1.5", "1e9", "0x10", " 1", "1" * 17])
@pytest.mark.frozen_clock(False)
async def test_a_due_time_that_is_no_number_is_refused_before_anything_is_written(
    server: Server, store: claimq.Server, queue: ReliableQueue, due: str
) -> None:
    await queue.enqueue("held", id="held")
    (claim,) = await queue.claim(wait=0)
    before, connection = contents(server), store._connection
    group: list[str | int] = [1, 0, "-", due, "", 1, 1, "new", "payload"]
    with connection.lanes.new_call() as call, pytest.raises(StoreMisused):
        await connection.run("enqueue", ["cq:{q}:main"], [*call, *group])
    group[1] = 1
    with connection.lanes.new_call() as call, pytest.raises(StoreMisused):
        await connection.run("done_enqueue", ["cq:{q}:main"], [*call, 1, "w1", 1, claim.token, *group])
    assert changes(before, contents(server)) == {}
