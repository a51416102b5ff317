"""renew: the end of a lease moves to one busy expiry from now."""

import pytest

from claimq import Policy, ReliableQueue, State
from testkit.queues.clock import Near, move_clock
from testkit.queues.looking import enqueued_and_claimed, verdicts

pytestmark = pytest.mark.frozen_clock(True)


async def test_a_renewed_lease_ends_one_busy_expiry_from_now(queue: ReliableQueue, near: Near) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    await move_clock(queue, 20)
    (outcome,) = await queue.renew(claim)
    assert outcome.verdict == "renewed"
    assert outcome.lease_until == near(claim.lease_until + 20)
    (located,) = await queue.items(State.BUSY)
    assert located.lease_until == outcome.lease_until
    assert located.claimed_at == pytest.approx(claim.claimed_at, abs=0.002)


async def test_a_renewed_claim_outlives_its_first_lease_and_one_that_was_not_does_not(
    queue: ReliableQueue,
) -> None:
    kept, lost = await enqueued_and_claimed(queue, "ab")
    await move_clock(queue, 20)
    await queue.renew(kept)
    await move_clock(queue, 20)
    assert [outcome.token for outcome in (await queue.reap()).expired] == [lost.token]
    assert verdicts(await queue.done([kept, lost])) == ["done", "lost"]


async def test_renewing_follows_the_policy_of_the_moment(queue: ReliableQueue, near: Near) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    await queue.set_policy(Policy(busy_expiry=100))
    (outcome,) = await queue.renew(claim)
    assert outcome.lease_until is not None
    assert outcome.lease_until - claim.lease_until == near(70)


async def test_a_claim_may_be_renewed_for_ever_and_counts_nothing(queue: ReliableQueue) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    for _ in range(20):
        await move_clock(queue, 25)
        assert verdicts(await queue.renew(claim)) == ["renewed"]
    assert (await queue.reap()).expired == ()
    (located,) = await queue.items(State.BUSY)
    assert located.item.requeue_count == 0


async def test_an_expired_claim_that_is_not_reaped_yet_may_be_renewed(queue: ReliableQueue) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    await move_clock(queue, 31)
    assert verdicts(await queue.renew(claim)) == ["renewed"]
    assert (await queue.reap()).expired == ()


async def test_each_claim_of_a_batch_has_its_own_outcome(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    one, two = await enqueued_and_claimed(queue, "ab")
    (three,) = await enqueued_and_claimed(other_worker, "c")
    await queue.done(two)
    outcomes = await queue.renew([one, "w1/1.AAAAAAAA", two, three.token, one])
    assert verdicts(outcomes) == ["renewed", "lost", "lost", "renewed", "lost"]
    assert [outcome.lease_until is not None for outcome in outcomes] == [True, False, False, True, False]


async def test_renewing_shows_that_the_worker_lives(queue: ReliableQueue) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    await move_clock(queue, 100)
    await queue.renew(claim)
    (worker,) = await queue.workers()
    assert (worker.worker, worker.busy) == ("w1", 1)
    assert (await queue.snapshot()).now - worker.last_seen_at < 1
