"""A pause has who, when, why and until when, and ends by itself."""

from dataclasses import replace
from datetime import timedelta

import pytest

from claimq import Pause, Policy, ReliableQueue
from claimq.internals.next_claims import next_claims
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts
from testkit.servers.server import Server


async def test_a_pause_keeps_who_when_why_and_until_when(queue: ReliableQueue) -> None:
    before = (await queue.snapshot()).now
    await queue.pause(until=before + 600, reason="database upgrade", by="ann@host")
    seen = await queue.snapshot()
    assert seen.pause is not None
    assert before <= (seen.pause.at or 0) <= seen.now
    assert replace(seen.pause, at=None) == Pause(None, before + 600, "ann@host", "database upgrade")


async def test_a_second_pause_leaves_nothing_of_the_first(queue: ReliableQueue) -> None:
    await queue.pause(until=timedelta(minutes=1), reason="first", by="ann")
    await queue.pause()
    pause = (await queue.snapshot()).pause
    assert pause is not None
    assert replace(pause, at=None) == Pause()


@pytest.mark.parametrize("kind", ["claim", "done and claim"])
@pytest.mark.frozen_clock(True)
async def test_a_pause_ends_by_itself_by_the_clock_of_the_queue(queue: ReliableQueue, kind: str) -> None:
    await queue.enqueue_many(["held", "a"])
    held = await queue.claim(wait=0)
    await queue.pause(until=timedelta(seconds=20), by="ann")
    await move_clock(queue, 19.9)
    assert await queue.claim(wait=0) == []
    await move_clock(queue, 0.1)
    assert not (await queue.snapshot()).paused
    assert (await queue.snapshot()).pause is None
    if kind == "claim":
        assert texts(await queue.claim(wait=0)) == ["a"]
        return
    assert texts((await next_claims(queue).done_and_claim(held))[1]) == ["a"]


@pytest.mark.frozen_clock(True)
async def test_a_waiting_claim_asks_again_when_the_pause_ends(queue: ReliableQueue) -> None:
    await queue.enqueue("a", delay=0.7)
    await queue.pause(until=timedelta(seconds=0.5))
    assert (await queue._claim(1, wait=0)).next_due_in == 0.5
    await queue.pause(until=timedelta(seconds=0.9))
    assert (await queue._claim(1, wait=0)).next_due_in == 0.7


async def test_the_end_of_a_pause_ends_no_suspension(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(suspended=True))
    await queue.pause(until=timedelta(milliseconds=1))
    await queue.enqueue("a")
    assert await queue.claim(wait=0.05) == []
    seen = await queue.snapshot()
    assert (seen.paused, seen.pause) == (True, None)


@pytest.mark.parametrize("end", [1.0, timedelta(0)])
async def test_an_end_that_is_over_is_refused(queue: ReliableQueue, end: float | timedelta) -> None:
    with pytest.raises(ValueError, match=r"^until is over by the clock of the server; give a later instant"):
        await queue.pause(until=end)
    with pytest.raises(TypeError, match=r"^until is '1h'; give a timedelta from now, or an instant"):
        await queue.pause(until="1h")  # type: ignore[arg-type]  # what it refuses
    assert not (await queue.snapshot()).paused


async def test_a_pause_that_another_client_has_set_is_one_too(server: Server, queue: ReliableQueue) -> None:
    server.call(
        "HSET",
        "cq:{q}:pauses",
        "queue",
        "0 8000000000000 8000000000000 0  ",
        "client",
        "x",
        "client a",
        "1 x 0 3 y",
    )
    server.call("HSET", "cq:{q}:config", "pauses", "8000000000000 0 0 0")
    await queue.enqueue("a")
    assert await queue.claim(wait=0) == []
    snapshot = await queue.snapshot()
    assert (snapshot.pause, snapshot.pauses) == (Pause(0.0), (Pause(0.0),))
