"""What only an operator does: recording why a worker died, removing a queue."""

import pytest

from claimq import NewItem, Policy, ReliableQueue, connect
from claimq.internals.operations import internals
from claimq.model import State
from claimq.policy import RetryDelay
from testkit.queues.clock import move_clock
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import patient
from testkit.servers.server import Server

FIRST = "worker ended: exit code 3; pod p, node n, image i, run 1"
CAUSE = "worker ended: OOMKilled, exit code 137 (signal 9); pod p, node n, image i, run 2"


@pytest.mark.parametrize("client", [None, "c"])
async def test_a_cause_is_recorded_on_an_item_that_waits_again(
    queue: ReliableQueue, client: str | None
) -> None:
    await queue.enqueue("a", client=client)
    await queue.crash(await queue.claim(1, wait=0), "the app ended its session without a verdict")
    before = (await queue.snapshot()).lengths
    assert await internals(queue).explain("w1", CAUSE) == 1
    (item,) = await queue.peek(1)
    assert (item.last_error, item.crash_count, item.requeue_count) == (CAUSE, 1, 1)
    assert item.history[-1].error == CAUSE[:200]
    assert item.payload == b"a"
    assert (await queue.snapshot()).lengths == before


async def test_a_cause_is_recorded_wherever_the_item_is_by_now(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=0))
    await queue.enqueue("failed")
    await queue.crash(await queue.claim(1, wait=0), "gone")
    await queue.set_policy(retrying_at_once(requeue_limit=5))
    await queue.enqueue("busy")
    await queue.crash(await queue.claim(1, wait=0), "gone")
    await other_worker.claim(1, wait=0)
    await queue.set_policy(Policy(requeue_limit=5, retry_delay=RetryDelay(initial=60.0, jitter=0)))
    await queue.enqueue("delayed")
    for _ in range(2):  # the first crash is not followed by a delay
        await queue.crash(await queue.claim(1, wait=0), "gone")
    (due,) = await queue.items(State.DELAYED)
    assert await internals(queue).explain("w1", CAUSE) == 3
    for state in (State.FAILED, State.BUSY, State.DELAYED):
        (located,) = await queue.items(state)
        assert located.item.last_error == CAUSE
        assert located.item.text == state.value
    assert (await queue.items(State.DELAYED))[0].due_at == due.due_at


@pytest.mark.usefixtures("retries_at_once")
async def test_no_item_gets_a_cause_twice_or_of_another_death(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many(["a", "b", "c"])
    first, second, third = await queue.claim(3, wait=0)
    await queue.crash(first, "gone")
    await queue.fail(second, "a failure of its own")
    await other_worker.crash(third, "gone")  # its token says whose it was: w1
    assert await internals(queue).explain("w2", CAUSE) == 0
    assert await internals(queue).explain("w1", CAUSE) == 2
    assert await internals(queue).explain("w1", CAUSE) == 0
    assert await internals(queue).explain("w1", "worker ended: exit code 1; pod p") == 0
    assert "a failure of its own" in {item.last_error for item in await queue.peek(3)}


@pytest.mark.frozen_clock(True)
async def test_a_crash_that_got_an_earlier_ends_cause_gets_its_own(queue: ReliableQueue) -> None:
    async def crash() -> None:
        await queue.crash(await queue.claim(1, wait=0), "gone")
        assert await internals(queue).explain("w1", FIRST, ended_at=first_end) == 1
        assert await internals(queue).explain("w1", FIRST, ended_at=first_end) == 0

    first_end = (await queue.snapshot()).now
    await queue.enqueue_many(["a", "b"])
    await crash()
    await move_clock(queue, 5)
    second_end = (await queue.snapshot()).now
    await crash()  # the first end is handled again, and takes the second end's crash for its own
    assert await internals(queue).explain("w1", CAUSE, ended_at=second_end) == 1
    assert await internals(queue).explain("w1", CAUSE, ended_at=second_end) == 0
    assert [item.last_error for item in await queue.peek(2)] == [FIRST, CAUSE]


@pytest.mark.frozen_clock(True)
async def test_a_crash_of_long_ago_is_not_explained(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.crash(await queue.claim(1, wait=0), "gone")
    await move_clock(queue, 61)
    assert await internals(queue).explain("w1", CAUSE) == 0


async def test_delete_leaves_no_key_but_kept_replies(queue: ReliableQueue, server: Server) -> None:
    await queue.set_policy(Policy(requeue_limit=2))
    await queue.enqueue_many([NewItem("a", client="c"), NewItem("b", client="c")])
    await queue.enqueue_many([NewItem("d", delay=60), NewItem("e", delay=60)])
    await queue.fail(await queue.claim(1, wait=0), "no", permanent=True)
    await queue.claim(1, wait=0)
    gone = await queue.delete()
    assert gone == {State.MAIN: 0, State.BUSY: 1, State.DELAYED: 2, State.FAILED: 1}
    keys = server.call("KEYS", "cq:{q}:*")
    assert isinstance(keys, list)
    assert [key for key in keys if b":calls:" not in bytes(str(key), "utf-8")] == []
    assert await queue.policy() == Policy()
    assert await queue.delete() == dict.fromkeys((State.MAIN, State.BUSY, State.DELAYED, State.FAILED), 0)


@pytest.mark.parametrize("state", ["main", "busy", "delayed", "failed"])
async def test_a_queue_with_an_item_in_any_state_is_kept_if_asked_to(
    queue: ReliableQueue, state: str
) -> None:
    await queue.enqueue("a", delay=60 if state == "delayed" else None)
    if state in ("busy", "failed"):
        claims = await queue.claim(1, wait=0)
        if state == "failed":
            await queue.fail(claims, "no", permanent=True)
    assert await queue.delete(only_if_empty=True) is None
    assert await queue.length(state) == 1


async def test_an_empty_queue_is_removed_if_asked_to(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=2))
    assert await queue.delete(only_if_empty=True) is not None
    assert await queue.policy() == Policy()


async def test_a_queue_exists_from_whatever_is_written_first_until_it_is_deleted(
    server: Server, queue: ReliableQueue
) -> None:
    async def deleted() -> None:
        await queue.delete()
        assert not await queue.exists()

    assert not await queue.exists()
    await queue.snapshot()
    await queue.peek(1)
    assert not await queue.exists()
    await queue.set_policy(Policy())
    assert await queue.exists()
    await deleted()
    await queue.enqueue("a")
    assert await queue.exists()
    await deleted()
    await queue.enqueue("later", delay=60)
    assert await queue.exists()
    await deleted()
    server.call("LPUSH", "cq:{q}:main", "bare")
    assert await queue.exists()
    await deleted()
    await queue.claim(wait=0)
    assert await queue.exists()


async def test_tokens_claimed_before_a_time_are_found_without_their_items(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.enqueue_many(["x" * 100_000] * 5)
    before = [claim.token for claim in await queue.claim(3, wait=0)]
    await move_clock(queue, 10.0)
    at = (await queue.snapshot()).now
    await move_clock(queue, 10.0)
    await queue.claim(2, wait=0)
    async with connect(settings=patient(server.url, largest_reply=50_000)) as store:
        reader = internals(store.queue("q", worker="operator"))
        assert await reader.tokens_claimed_before("w1", at) == before
        assert await reader.tokens_claimed_before("w1", at - 20.0) == []
        assert await reader.tokens_claimed_before("w2", at) == []


async def test_known_ids_are_those_that_an_enqueue_would_not_add(queue: ReliableQueue) -> None:
    await queue.enqueue("a", id="a")
    await queue.enqueue_many([NewItem("x", id=f"x{number}") for number in range(1200)])
    await queue.enqueue("without an id of its own")
    asked = ["a", "b", *(f"x{number}" for number in range(0, 2400, 2))]
    known = await internals(queue).known_ids(asked)
    assert known == {"a", *(f"x{number}" for number in range(0, 1200, 2))}
    assert await internals(queue).known_ids([]) == set()


@pytest.mark.frozen_clock(True)
async def test_an_id_is_known_until_its_window_ends(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(id_window=60.0))
    await queue.enqueue("a", id="a")
    await move_clock(queue, 59.0)
    assert await internals(queue).known_ids(["a"]) == {"a"}
    await move_clock(queue, 1.0)
    assert await internals(queue).known_ids(["a"]) == set()
