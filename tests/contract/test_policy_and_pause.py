"""The policy lives on the server and holds at once for every client; a paused queue gives no claims."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

import claimq
from claimq import (
    FailedPolicy,
    KeyOrder,
    Match,
    NewItem,
    OnExpiry,
    Policy,
    ReliableQueue,
    RetryDelay,
    StoreMisused,
)
from testkit.queues.looking import Lengths, lengths, texts, verdicts, waiting
from testkit.servers.patient import open_queue
from testkit.servers.server import Server

ODD = Policy(
    requeue_limit=1,
    busy_expiry=2.5,
    on_expiry=OnExpiry.FAIL,
    key_order=KeyOrder.STRICT,
    retry_delay=RetryDelay(initial=0.1, factor=1.5, max=7, jitter=0.25),
    claim_wait_timeout=0,
    max_payload=100,
    id_window=5,
    failed=FailedPolicy(1, 2, 3, 4, 5, Match.EITHER),
)


async def test_a_queue_that_was_never_set_up_has_the_defaults(queue: ReliableQueue) -> None:
    assert await queue.policy() == Policy()


async def test_a_policy_is_read_back_as_it_was_set_by_every_connection(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.set_policy(ODD)
    async with open_queue(server.url) as opened:
        assert await opened.policy() == ODD


async def test_setting_a_policy_replaces_all_of_it(queue: ReliableQueue) -> None:
    await queue.set_policy(ODD)
    await queue.set_policy(Policy())
    assert await queue.policy() == Policy()


async def test_changing_fields_leaves_all_others_as_they_are(queue: ReliableQueue) -> None:
    await queue.set_policy(ODD)
    await queue.pause()
    await queue.update_policy(requeue_limit=9, failed_max_items=None, retry_delay_max=8)
    retry, failed = replace(ODD.retry_delay, max=8), replace(ODD.failed, max_items=None)
    assert await queue.policy() == replace(ODD, requeue_limit=9, retry_delay=retry, failed=failed)
    assert (await queue.snapshot()).paused
    await queue.update_policy(failed=FailedPolicy(max_items=3), suspended=True)
    failed = FailedPolicy(max_items=3)
    assert await queue.policy() == replace(
        ODD, requeue_limit=9, retry_delay=retry, failed=failed, suspended=True
    )


async def test_those_who_change_different_fields_at_once_undo_nothing(
    store: claimq.Server, queue: ReliableQueue
) -> None:
    await asyncio.gather(
        *(store.queue("q").update_policy(requeue_limit=number) for number in range(20)),
        *(store.queue("q").update_policy(failed_max_items=number) for number in range(1, 20)),
        queue.update_policy(id_window=77),
        queue.update_policy(failed_requeue_min_age=66),
    )
    policy = await queue.policy()
    assert (policy.id_window, policy.failed.requeue_min_age) == (77, 66)
    assert policy.failed.max_items is not None
    assert policy.busy_expiry == Policy().busy_expiry


@pytest.mark.parametrize(
    ("count", "age"),
    [
        ("failed_requeue_max_given_up_count", "failed_requeue_min_age"),
        ("failed_remove_min_given_up_count", "failed_remove_min_age"),
    ],
)
async def test_a_fail_count_is_not_left_without_its_age(queue: ReliableQueue, count: str, age: str) -> None:
    def change(**words: Any) -> Awaitable[None]:
        return queue.update_policy(**words)

    with pytest.raises(ValueError, match=f"{count} without {age}.*set both in one call"):
        await change(**{count: 3})
    assert await queue.policy() == Policy()
    await change(**{count: 3, age: 60})
    set_up = await queue.policy()
    with pytest.raises(ValueError, match=f"{count} without {age}.*unset both"):
        await change(**{age: None})
    assert await queue.policy() == set_up
    await change(**{count: None, age: None})
    assert await queue.policy() == Policy()


async def test_a_removal_by_either_filter_needs_no_age(queue: ReliableQueue) -> None:
    await queue.update_policy(failed_remove_match=Match.EITHER)
    await queue.update_policy(failed_remove_min_given_up_count=3)
    with pytest.raises(ValueError, match="set both"):
        await queue.update_policy(failed_remove_match=Match.BOTH)
    assert (await queue.policy()).failed == FailedPolicy(
        remove_min_given_up_count=3, remove_match=Match.EITHER
    )


async def test_a_count_that_another_client_left_alone_does_not_prevent_a_pause(
    server: Server, queue: ReliableQueue
) -> None:
    server.call("HSET", "cq:{q}:config", "failed_remove_min_given_up_count", "3")
    await queue.pause()
    await queue.update_policy(requeue_limit=2)
    assert (await queue.snapshot()).paused
    with pytest.raises(StoreMisused, match=r"failed\.remove_min_given_up_count does nothing without"):
        await queue.policy()


async def test_a_change_that_ends_a_suspension_wakes_a_waiting_claimer(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(Policy(suspended=True))
    await queue.enqueue("a")
    waiting_claim = asyncio.ensure_future(other_worker.claim(wait=None))
    await queue.update_policy(suspended=False)
    assert texts(await waiting_claim) == ["a"]


async def test_a_client_of_any_language_sets_a_single_field(server: Server, queue: ReliableQueue) -> None:
    server.call("HSET", "cq:{q}:config", "requeue_limit", "0")
    assert (await queue.policy()).requeue_limit == 0
    await queue.enqueue("a")
    assert verdicts(await queue.fail(await queue.claim(wait=0), "no")) == ["failed"]


async def test_a_paused_queue_gives_no_claims_and_everything_else_goes_on(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("abc"))
    (claim,) = await queue.claim(wait=0)
    await queue.pause()
    assert (await queue.snapshot()).paused
    assert await queue.claim(wait=0.05) == []
    await queue.enqueue("d")
    assert verdicts(await queue.renew(claim)) == ["renewed"]
    assert verdicts(await queue.unclaim(claim)) == ["unclaimed"]
    await queue.reap()
    assert await lengths(queue) == Lengths(main=4)
    await queue.resume()
    assert not (await queue.snapshot()).paused
    assert texts(await queue.claim(9, wait=0)) == list("abcd")


async def test_a_suspended_queue_gives_no_claims_either_and_a_pause_is_apart_from_it(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue("a")
    await queue.pause()
    await queue.set_policy(Policy(suspended=True))
    await queue.resume()
    assert await queue.claim(wait=0) == []
    await queue.pause()
    await queue.set_policy(Policy(suspended=False))
    assert await queue.claim(wait=0) == [], "setting a policy ends no pause by hand"
    await queue.resume()
    assert texts(await queue.claim(wait=0)) == ["a"]


async def test_flush_empties_every_state_and_keeps_policy_counters_and_numbering(
    queue: ReliableQueue,
) -> None:
    await queue.set_policy(ODD)
    await queue.enqueue_many(list("abc"))
    await queue.enqueue("d", client="ann", id="mine")
    claims = await queue.claim(3, wait=0)
    await queue.fail(claims[0], "no", permanent=True)
    await queue.requeue(claims[1], delay=60)
    assert {state.value: count for state, count in (await queue.flush()).items()} == {
        "main": 1, "busy": 1, "delayed": 1, "failed": 1,
    }  # fmt: skip
    assert await lengths(queue) == Lengths()
    assert await queue.policy() == ODD
    stats = await queue.stats()
    assert (stats["enqueued"], stats["flushed"]) == (4, 4)
    assert verdicts(await queue.done(claims)) == ["lost"] * 3
    await queue.enqueue("again", id="mine")
    (new,) = await queue.claim(9, wait=0)
    assert new.number > max(claim.number for claim in claims)
    assert verdicts(await queue.done(claims)) == ["lost"] * 3
    assert verdicts(await queue.done(new)) == ["done"]


async def test_flush_leaves_no_key_with_items(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.enqueue_many([NewItem("x", client=f"c{number}") for number in range(20)] + ["y"])
    await queue.claim(5, wait=0)
    await other_worker.claim(5, wait=0)
    await queue.flush()
    keys = server.call("KEYS", "cq:{q}:*")
    assert isinstance(keys, list)
    left = {str(key, "ascii").removeprefix("cq:{q}:") for key in keys if isinstance(key, bytes)}
    assert {name for name in left if not name.startswith("calls:")} <= {"stats", "config", "workers"}


async def test_flushing_nothing_is_no_error(queue: ReliableQueue) -> None:
    assert set((await queue.flush()).values()) == {0}


async def test_a_flushed_queue_works_on_with_clients(queue: ReliableQueue) -> None:
    await queue.enqueue("a", client="ann")
    await queue.enqueue("b")
    await queue.claim(1, wait=0)
    await queue.flush()
    await queue.enqueue("c", client="ann")
    await queue.enqueue("d")
    assert sorted(await waiting(queue)) == ["c", "d"]
    assert sorted(texts(await queue.claim(9, wait=0))) == ["c", "d"]
    assert await queue.age() is None


@pytest.mark.parametrize("odd", [2, 1, None, "yes"])
async def test_a_deletion_with_a_condition_that_is_no_bool_is_refused(
    queue: ReliableQueue, odd: object
) -> None:
    await queue.enqueue("a")
    with pytest.raises(TypeError, match=r"^only_if_empty is"):
        await queue.delete(only_if_empty=odd)  # type: ignore[arg-type]  # what it refuses
    assert await queue.length() == 1


@pytest.mark.parametrize("only_if_empty", [False, True])
async def test_delete_removes_everything_unless_something_is_held(
    server: Server, queue: ReliableQueue, only_if_empty: bool
) -> None:
    await queue.set_policy(ODD)
    await queue.enqueue_many(list("ab"))
    await queue.claim(1, wait=0)
    counts = await queue.delete(only_if_empty=only_if_empty)
    if only_if_empty:
        assert counts is None
        assert await lengths(queue) == Lengths(main=1, busy=1)
        return
    assert counts is not None
    assert sum(counts.values()) == 2
    keys = server.call("KEYS", "cq:{q}:*")
    assert isinstance(keys, list)
    assert [key for key in keys if isinstance(key, bytes) and b":calls:" not in key] == []
