"""Changes of single limits: of the policy, and for a time."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from claimq import Limit, NewItem, ReliableQueue
from testkit.queues.clock import move_clock
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def filled(queue: ReliableQueue, *limits: Limit) -> None:
    await queue.update_policy(limits=limits)
    await queue.enqueue_many(NewItem(f"{number}") for number in range(100))


async def starts(queue: ReliableQueue, count: int = 100) -> int:
    return len(await queue.claim(count, wait=0))


async def test_a_temporary_limit_holds_until_its_end_and_then_the_policys(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=5), Limit("mail-api", busy=90))
    await queue.set_limit(
        Limit("api", rate="1/h", burst=2), until=timedelta(seconds=60), reason="API; is | down", by="ann"
    )
    snapshot = await queue.snapshot()
    (change,) = snapshot.temporary_limits
    assert (change.name, change.by, change.reason) == ("api", "ann", "API; is | down")
    assert change.until == snapshot.now + 60
    assert snapshot.limits is not None
    assert (snapshot.limits.startable, dict(snapshot.limits.by_rate)) == (2, {"api": 2})
    assert (await starts(queue), await starts(queue)) == (2, 0)
    await move_clock(queue, 60)
    assert (await queue.snapshot()).temporary_limits == ()
    assert (await starts(queue), await starts(queue)) == (3, 0)


async def test_setting_the_policy_leaves_a_temporary_limit(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=5))
    await queue.set_limit(Limit("api", rate="1/h", burst=2), until=timedelta(seconds=60))
    limits = (Limit("api", rate="1/h", burst=9),)
    await queue.update_policy(limits=limits)
    await queue.set_policy(replace(await queue.policy(), requeue_limit=3))
    assert (await queue.policy()).limits == limits
    assert await starts(queue) == 2
    await queue.reset_limits()
    assert await starts(queue) == 7


async def test_a_limit_that_is_removed_for_a_time_holds_nothing_back(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h"), Limit("api-2", busy=50))
    await queue.remove_limit("api", until=timedelta(seconds=60))
    assert await starts(queue) == 50
    await queue.remove_limit("api-2", until=timedelta(seconds=30))
    snapshot = await queue.snapshot()
    assert (snapshot.limits, len(snapshot.temporary_limits)) == (None, 2)
    assert await starts(queue, 40) == 40
    await move_clock(queue, 60)
    assert (await queue.policy()).limits == (Limit("api", rate="1/h"), Limit("api-2", busy=50))
    assert (await starts(queue), await starts(queue)) == (1, 0)


async def test_an_item_that_started_without_the_limit_gives_no_start_back(queue: ReliableQueue) -> None:
    limit = Limit("api", rate="1/h", burst=2)
    await filled(queue, limit)
    assert await starts(queue) == 2
    await queue.update_policy(limits=[])
    claims = await queue.claim(1, wait=0)
    await queue.update_policy(limits=[limit])
    await queue.unclaim(claims)
    assert await starts(queue) == 0


async def test_a_smaller_burst_of_the_same_first_digits_counts_at_once(queue: ReliableQueue) -> None:
    await filled(queue, Limit("api", rate="1/h", burst=10))
    assert await starts(queue) == 10
    await queue.update_policy(limits=[Limit("api", rate="1/h", burst=1)])
    await move_clock(queue, 3600)
    assert await starts(queue) == 1


async def test_a_claim_by_id_leaves_the_note_that_items_wait_for_an_end(
    queue: ReliableQueue, server: Server
) -> None:
    await filled(queue, Limit("licences", busy=2))
    assert await starts(queue) == 2
    assert await queue.claim_item((await queue.peek(1))[0].id)
    note = server.call("HGET", "cq:{q}:stats", "limits")
    assert isinstance(note, bytes)
    assert note.startswith(b"1")


async def test_a_limit_is_added_and_removed_beside_the_others(queue: ReliableQueue) -> None:
    first, second = Limit("api", rate="1/h"), Limit("licences", busy=2)
    await queue.set_limit(first)
    await queue.set_limit(second)
    await queue.set_limit(Limit("api", busy=7), until=timedelta(hours=1))
    await queue.set_limit(first)  # which ends the temporary change
    assert (await queue.policy()).limits == (first, second)
    assert (await queue.snapshot()).temporary_limits == ()
    await queue.remove_limit("api")
    assert (await queue.policy()).limits == (second,)


async def test_changes_of_different_limits_at_the_same_time_are_all_made(queue: ReliableQueue) -> None:
    await asyncio.gather(*(queue.set_limit(Limit(f"l{number}", busy=number + 1)) for number in range(8)))
    assert {limit.name for limit in (await queue.policy()).limits} == {f"l{number}" for number in range(8)}


@pytest.mark.parametrize("until", [None, timedelta(hours=1)], ids=["permanent", "temporary"])
async def test_a_change_of_limits_that_cannot_hold_is_refused(
    queue: ReliableQueue, until: timedelta | None
) -> None:
    await queue.update_policy(limits=[Limit(f"l{number}", busy=1) for number in range(8)])
    with pytest.raises(ValueError, match="limits has 9 limits; give at most 8"):
        await queue.set_limit(Limit("api", busy=1), until=until)
    with pytest.raises(ValueError, match="the queue has no limit api; it has l0, l1, "):
        await queue.remove_limit("api", until=until)
    with pytest.raises(ValueError, match="until is over by the clock of the server"):
        await queue.set_limit(Limit("l0", busy=1), until=1.0)
    assert len((await queue.policy()).limits) == 8


async def test_a_policy_with_more_than_eight_limits_beside_temporary_ones_is_refused(
    queue: ReliableQueue,
) -> None:
    limits = [Limit(f"l{number}", busy=number + 1) for number in range(8)]
    await queue.update_policy(limits=limits[:7])
    await queue.set_limit(Limit("api", busy=1), until=timedelta(seconds=60))
    await queue.remove_limit("l6", until=timedelta(seconds=60))
    before = await queue.policy()
    refused = "limits has 9 limits with the temporary ones; give at most 8, or reset those"
    with pytest.raises(ValueError, match=refused):
        await queue.update_policy(limits=limits)
    with pytest.raises(ValueError, match=refused):
        await queue.set_policy(replace(before, limits=tuple(limits), requeue_limit=7))
    assert await queue.policy() == before
    await queue.set_policy(replace(before, limits=(*limits[:7], Limit("api", busy=9))))
    await move_clock(queue, 60)
    await queue.update_policy(limits=limits)
    assert (await queue.policy()).limits == tuple(limits)


@pytest.mark.parametrize(
    "stored", ["a queue busy 2|x y z a off", "a queue busy 2|9e9 = = a off", "a queue busy 2|"]
)
async def test_a_temporary_limit_that_another_client_has_written_wrong_holds_nothing_back(
    queue: ReliableQueue, server: Server, stored: str
) -> None:
    await filled(queue)
    server.call("HSET", "cq:{q}:config", "limits", stored)
    await queue.snapshot()
    assert await starts(queue) == 2
    await queue.reset_limits()
    assert server.call("HGET", "cq:{q}:config", "limits") == b"a queue busy 2"


async def test_levels_of_clients_are_swept_after_a_temporary_limit(
    queue: ReliableQueue, server: Server
) -> None:
    await queue.update_policy(limits=[Limit("api", rate="1/s", per="client")])
    await queue.set_limit(Limit("api", rate="1/h", per="client"), until=timedelta(seconds=60))
    await queue.enqueue_many(NewItem("x", client=client) for client in "ab")
    await queue.done(await queue.claim(2, wait=0))
    for seconds, swept in ((59, 2), (3600, 0)):
        await move_clock(queue, seconds)
        await queue.reap()
        assert server.call("HLEN", "cq:{q}:starts") == swept
