"""Pauses of clients: no claim takes their items, and the others go on."""

from dataclasses import replace
from datetime import timedelta

import pytest

from claimq import Limit, NewItem, Pause, ReliableQueue, State
from claimq.waiting.reasons import WaitReason, waiting_counts
from testkit.queues.clock import move_clock
from testkit.queues.looking import fill_in_turn, parked, starts
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
MINUTE = timedelta(minutes=1)


async def test_items_of_a_paused_client_wait_and_the_others_go_on(queue: ReliableQueue) -> None:
    await fill_in_turn(queue, "abc")
    await queue.pause(client="a", until=timedelta(seconds=20))
    await queue.enqueue("x")
    assert sorted(await starts(queue)) == sorted("bcbcbc-")
    await move_clock(queue, 19.9)
    assert await starts(queue) == ""
    await move_clock(queue, 0.1)
    assert await starts(queue) == "aaa"


@pytest.mark.parametrize("by", ["time", "count"])
async def test_the_only_client_is_paused_until_it_is_resumed(queue: ReliableQueue, by: str) -> None:
    await queue.update_policy(fairness_by=by)
    await fill_in_turn(queue, "a")
    assert await starts(queue, 1) == "a"
    await queue.pause(client="a")
    assert await starts(queue) == ""
    await move_clock(queue, 86_400 * 365)
    assert await starts(queue) == ""
    assert await queue.resume(client="a")
    assert not await queue.resume(client="a")
    assert await starts(queue) == "aa"


async def test_a_pause_of_a_client_keeps_who_when_why_and_until_when(queue: ReliableQueue) -> None:
    await fill_in_turn(queue, "ab")
    before = (await queue.snapshot()).now
    await queue.pause(client="a", until=before + 600, reason="their API is down", by="ann@host")
    await queue.pause(client="b")
    snapshot = await queue.snapshot()
    pauses = sorted(snapshot.pauses, key=lambda pause: pause.client or "")
    assert [replace(pause, at=None) for pause in pauses] == [
        Pause(None, before + 600, "ann@host", "their API is down", client="a", items=3),
        Pause(None, client="b", items=3),
    ]
    assert all(before <= (pause.at or 0) <= snapshot.now for pause in pauses)
    assert (snapshot.paused, snapshot.pause, snapshot.claimable) == (False, None, 0)
    assert waiting_counts(snapshot)["paused"] == 6


async def test_where_names_the_pause_of_the_client(queue: ReliableQueue) -> None:
    await queue.enqueue("x", id="one", client="a")
    await queue.enqueue("x", id="two", client="b")
    now = (await queue.snapshot()).now
    await queue.pause(client="a", until=now + 60, reason="moving", by="ann")
    where = await queue.where("one")
    assert where is not None
    assert where.reason is WaitReason.PAUSED
    assert where.until == pytest.approx(now + 60)
    assert where.text.startswith("the client a is paused by ann since ")
    assert where.text.endswith("Z (moving)")
    other = await queue.where("two")
    assert other is not None
    assert other.reason is WaitReason.NO_WORKER


async def test_a_claim_looks_at_no_paused_client_twice(queue: ReliableQueue, server: Server) -> None:
    await fill_in_turn(queue, "abcdef", count=1)
    for client in "abcde":
        await queue.pause(client=client)
    assert await starts(queue) == "f"
    assert parked(server) == 5
    await queue.enqueue_many([NewItem("x", client="a"), NewItem("y", client="f")])
    assert (await starts(queue), parked(server)) == ("f", 5)


async def test_new_items_of_an_empty_paused_client_wait_too(queue: ReliableQueue, server: Server) -> None:
    await fill_in_turn(queue, "a", count=1)
    await queue.pause(client="a", until=MINUTE)
    assert (await starts(queue), parked(server)) == ("", 1)
    await queue.flush_client("a")
    await fill_in_turn(queue, "ab", count=1)
    assert (await starts(queue), parked(server)) == ("b", 1)
    assert server.call("ZCARD", "cq:{q}:clients") == 1
    await move_clock(queue, 60)
    assert await starts(queue) == "a"


async def test_items_in_progress_or_delayed_come_back_and_wait(queue: ReliableQueue) -> None:
    await fill_in_turn(queue, "a", count=3)
    await queue.enqueue("later", client="a", delay=1)
    held = await queue.claim(3, wait=0)
    await queue.pause(client="a", until=MINUTE)
    await queue.unclaim([held[0]])
    await queue.requeue([held[1]])
    await queue.done([held[2]])
    await move_clock(queue, 1)
    await queue.reap()
    assert (await starts(queue), (await queue.lengths())[State.MAIN]) == ("", 3)
    await move_clock(queue, 59)
    assert await starts(queue) == "aaa"


async def test_an_item_of_a_paused_client_is_claimed_by_its_id(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("x", id=f"{number}", client="a") for number in range(3)])
    await queue.pause(client="a")
    assert await starts(queue) == ""
    assert await queue.claim_item("1") is not None
    assert await starts(queue) == ""
    assert await queue.resume(client="a")
    assert await starts(queue) == "aa"


@pytest.mark.parametrize("ends", ["the pause", "the limit"])
async def test_a_client_waits_for_its_limit_and_for_its_pause(queue: ReliableQueue, ends: str) -> None:
    await queue.update_policy(limits=[Limit("api", rate="1/m", per="client")])
    await fill_in_turn(queue, "ab")
    assert await starts(queue) == "ab"
    await queue.pause(client="a", until=timedelta(seconds=30 if ends == "the pause" else 90))
    await move_clock(queue, 30)
    assert await starts(queue) == ""
    await move_clock(queue, 30)
    assert await starts(queue) == ("ab" if ends == "the pause" else "b")
    await move_clock(queue, 30)
    assert await starts(queue) == ("" if ends == "the pause" else "a")


@pytest.mark.parametrize("change", ["slot", "limit", "resume"])
async def test_a_freed_slot_and_a_lifted_limit_do_not_end_a_pause(queue: ReliableQueue, change: str) -> None:
    await queue.update_policy(limits=[Limit("slots", busy=1, per="client")])
    await fill_in_turn(queue, "a")
    held = await queue.claim(9, wait=0)
    assert len(held) == 1
    await queue.pause(client="a")
    assert await starts(queue) == ""
    if change == "resume":
        await queue.resume(client="a")
        assert await starts(queue) == ""
        await queue.done(held)
        assert await starts(queue) == "a"
        return
    await (queue.done(held) if change == "slot" else queue.update_policy(limits=[]))
    assert await starts(queue) == ""
    await queue.resume(client="a")
    assert await starts(queue) == ("a" if change == "slot" else "aa")


async def test_a_second_pause_replaces_the_first(queue: ReliableQueue) -> None:
    await fill_in_turn(queue, "a", count=2)
    await queue.pause(client="a", reason="first")
    assert await starts(queue) == ""
    await queue.pause(client="a", until=timedelta(seconds=10))
    assert [pause.reason for pause in (await queue.snapshot()).pauses] == [""]
    await move_clock(queue, 10)
    assert await starts(queue, 1) == "a"
    await queue.pause(client="a", until=timedelta(seconds=10))
    await queue.pause(client="a", until=timedelta(seconds=20))
    assert await starts(queue) == ""
    await move_clock(queue, 10)
    assert await starts(queue) == ""
    await move_clock(queue, 10)
    assert await starts(queue) == "a"


async def test_a_flush_leaves_pauses_and_a_delete_ends_them(queue: ReliableQueue) -> None:
    await fill_in_turn(queue, "a")
    await queue.pause(client="a")
    await queue.flush()
    await fill_in_turn(queue, "ab", count=1)
    assert await starts(queue) == "b"
    await queue.delete()
    await fill_in_turn(queue, "a", count=1)
    assert await starts(queue) == "a"


async def test_repair_brings_no_paused_client_back(queue: ReliableQueue, server: Server) -> None:
    await fill_in_turn(queue, "a")
    await queue.pause(client="a", until=MINUTE)
    assert await starts(queue) == ""
    server.call("ZREM", "cq:{q}:clients", "a")
    for _ in range(3):
        await queue.reap()
        assert await starts(queue) == ""
    await move_clock(queue, 60)
    assert await starts(queue) == "aaa"


async def test_a_reap_ends_a_pause_that_no_claim_has_seen_end(queue: ReliableQueue, server: Server) -> None:
    await fill_in_turn(queue, "a", count=1)
    await queue.pause(client="a", until=MINUTE)
    await queue.pause(client="b")
    assert await starts(queue) == ""
    await move_clock(queue, 60)
    assert (await queue.snapshot()).claimable == 1
    await queue.reap()
    assert (parked(server), server.call("LLEN", "cq:{q}:wake")) == (0, 1)
    assert server.call("HKEYS", "cq:{q}:pauses") == [b"client b"]
    await queue.resume(client="b")
    assert server.call("HGET", "cq:{q}:config", "pauses") == b""


async def test_one_worker_waits_for_the_end_of_a_pause(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await fill_in_turn(queue, "a")
    await queue.pause(client="a", until=timedelta(seconds=0.5))
    assert await starts(queue) == ""
    waits = [await worker._claim_once(1, None) for worker in (queue, other_worker)]
    assert [wait.next_due_in for wait in waits] == [0.5, None]
    assert all(wait.paused for wait in waits)
    await queue.pause(client="a")
    assert (await queue._claim_once(1, None)).next_due_in is None


async def test_resume_of_a_client_wakes_a_worker(queue: ReliableQueue, server: Server) -> None:
    await fill_in_turn(queue, "a", 1)
    await queue.pause(client="a", until=MINUTE)
    assert await starts(queue) == ""
    server.call("DEL", "cq:{q}:wake")
    await queue.resume(client="a")
    assert server.call("LLEN", "cq:{q}:wake") == 1


@pytest.mark.parametrize("kind", ["claim", "claim of an item"])
async def test_a_bound_counts_what_started_without_it_beside_a_paused_client(
    queue: ReliableQueue, kind: str
) -> None:
    bound = [Limit("slots", busy=1, per="client")]
    await queue.update_policy(limits=bound)
    await fill_in_turn(queue, "a", 4)
    await queue.done(await queue.claim(wait=0))
    await queue.pause(client="z")
    await queue.update_policy(limits=[])
    if kind == "claim":
        assert await starts(queue, 1) == "a"
    else:
        assert await queue.claim_item((await queue.peek(1))[0].id)
    await queue.update_policy(limits=bound)
    assert await starts(queue) == ""


async def test_clients_at_a_bound_start_when_it_is_removed_beside_a_paused_client(
    queue: ReliableQueue,
) -> None:
    await queue.update_policy(limits=[Limit("slots", busy=1, per="client")])
    await fill_in_turn(queue, "ab")
    await queue.pause(client="b")
    assert await starts(queue) == "a"
    await queue.update_policy(limits=[])
    assert await starts(queue) == "aa"


async def test_what_a_pause_holds_back_does_not_start_by_a_limit(queue: ReliableQueue) -> None:
    await queue.update_policy(limits=[Limit("api", rate="1/h", burst=2, per="client"), Limit("all", busy=9)])
    await fill_in_turn(queue, "abc")
    await queue.pause(client="a")
    snapshot = await queue.snapshot()
    assert snapshot.limits is not None
    assert (snapshot.limits.startable, snapshot.claimable) == (4, 6)
    assert waiting_counts(snapshot) == {
        "not_due": 0, "paused": 3, "key_busy": 0, "limit": 2, "ready": 4
    }  # fmt: skip


async def test_a_hundred_clients_may_be_paused(queue: ReliableQueue) -> None:
    for number in range(100):
        await queue.pause(client=f"c{number}", until=MINUTE)
    await queue.pause(client="c7")
    with pytest.raises(ValueError, match=r"^100 clients, or keys, of the queue are paused"):
        await queue.pause(client="other")
    await queue.pause()
    await move_clock(queue, 60)
    await queue.pause(client="other")
    assert {pause.client for pause in (await queue.snapshot()).pauses} == {None, "c7", "other"}
