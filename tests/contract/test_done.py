"""done: a claim ends and its item is gone; guarded by the token, with an outcome for each."""

import pytest

import claimq
from claimq import Claim, ReliableQueue, State
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, enqueued_and_claimed, lengths, texts, verdicts, waiting
from testkit.queues.script_calls import call as call_script
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def test_a_done_item_is_gone(queue: ReliableQueue) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    (outcome,) = await queue.done(claim)
    assert (outcome.token, outcome.verdict, outcome.id) == (claim.token, "done", claim.item.id)
    assert await lengths(queue) == Lengths()
    assert await queue.find(claim.item.id) is None
    assert (await queue.stats())["done"] == 1


async def test_a_second_done_is_lost_and_changes_nothing(queue: ReliableQueue) -> None:
    (claim,) = await enqueued_and_claimed(queue, "a")
    await queue.done(claim)
    assert verdicts(await queue.done(claim)) == ["lost"]
    assert (await queue.stats())["done"] == 1


async def test_claims_may_be_named_by_their_tokens(queue: ReliableQueue) -> None:
    one, two, three = await enqueued_and_claimed(queue, "abc")
    assert verdicts(await queue.done(one.token)) == ["done"]
    outcomes = await queue.done([two.token, three])
    assert verdicts(outcomes) == ["done", "done"]
    assert [outcome.id for outcome in outcomes] == [None, three.item.id]


async def test_each_claim_of_a_batch_has_its_own_outcome(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    one, two, three = await enqueued_and_claimed(queue, "abc")
    await queue.enqueue("d")
    (four,) = await other_worker.claim(wait=0)
    await queue.unclaim(two)
    named: list[Claim | str] = [
        one,
        "w1/1.AAAAAAAA",
        two,
        three.token,
        one,
        four,
        "w1/999.AAAAAAAA",
        "w2/2.AAAAAAAA",
        three,
    ]
    assert verdicts(await queue.done(named)) == [
        "done", "lost", "lost", "done", "lost", "done", "lost", "lost", "lost",
    ]  # fmt: skip
    assert await waiting(queue) == ["b"]
    stats = await queue.stats()
    assert (stats["done"], stats["lost"]) == (3, 4), "counted are those that the server saw"


async def test_anybody_with_the_token_may_end_a_claim(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    """A verdict names the claim, not its sender: a sidecar may end what another process claimed."""
    (claim,) = await enqueued_and_claimed(queue, "a")
    assert verdicts(await other_worker.done(claim.token)) == ["done"]


async def test_the_token_of_an_earlier_claim_ends_nothing(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    (late,) = await enqueued_and_claimed(queue, "a")
    await move_clock(queue, 31)
    await queue.reap()
    (now,) = await other_worker.claim(wait=0)
    assert now.item.id == late.item.id
    for call in (
        queue.done(late), queue.fail(late, "no"), queue.fail(late, "no", permanent=True), queue.requeue(late),
        queue.unclaim(late), queue.crash(late, "no"), queue.renew(late), queue.done(late, enqueue=["next"]),
    ):  # fmt: skip
        assert verdicts(await call) == ["lost"]
    assert await lengths(queue) == Lengths(busy=1)
    (located,) = await queue.items(State.BUSY)
    assert (located.name, located.lease_until) == (now.token, now.lease_until)
    assert located.item.fail_count == 0
    assert verdicts(await other_worker.done(now)) == ["done"]


async def test_an_expired_claim_that_is_not_reaped_yet_may_still_be_done(queue: ReliableQueue) -> None:
    """The lease says when it may be taken away; until then, the holder's verdict counts."""
    (claim,) = await enqueued_and_claimed(queue, "a")
    await move_clock(queue, 31)
    assert verdicts(await queue.done(claim)) == ["done"]
    assert (await queue.reap()).expired == ()


async def test_of_equal_payloads_the_right_one_is_done(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["same"] * 100)
    claims = await queue.claim(100, wait=0)
    await queue.done(claims[41])
    left = {located.item.id for located in await queue.items(State.BUSY, 1000)}
    assert left == {claim.item.id for claim in claims} - {claims[41].item.id}


async def test_thousands_are_done_in_one_call(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x"] * 2500)
    claims = [claim for _ in range(3) for claim in await queue.claim(1000, wait=0)]
    outcomes = await queue.done(claims)
    assert [outcome.token for outcome in outcomes] == [claim.token for claim in claims]
    assert set(verdicts(outcomes)) == {"done"}
    assert await lengths(queue) == Lengths()


async def test_nothing_to_end_is_no_error(queue: ReliableQueue) -> None:
    assert await queue.done([]) == []


async def test_a_token_of_another_queue_ends_nothing(store: claimq.Server, queue: ReliableQueue) -> None:
    other = store.queue("other", worker="w1")
    (mine,) = await enqueued_and_claimed(queue, "a")
    (theirs,) = await enqueued_and_claimed(other, "b")
    assert verdicts(await queue.done([theirs, mine])) == ["lost", "done"]
    assert texts([(await other.items(State.BUSY))[0].item]) == ["b"]


@pytest.mark.parametrize("worker", ["w-1", "host.example_7", "a:b", "x" * 200])
async def test_workers_of_every_name_end_their_claims(store: claimq.Server, worker: str) -> None:
    queue = store.queue("q", worker=worker)
    (claim,) = await enqueued_and_claimed(queue, "a")
    assert claim.worker == worker
    assert verdicts(await queue.done(claim)) == ["done"]


@pytest.mark.usefixtures("retries_at_once")
@pytest.mark.parametrize("script", ["done", "give_back", "renew"])
async def test_a_client_of_any_language_may_name_a_claim_twice_and_it_ends_once(
    queue: ReliableQueue, script: str
) -> None:
    """The library leaves out the second; another client may not."""
    one, two, _ = await enqueued_and_claimed(queue, "abc")
    tokens = [one.token, two.token, one.token, "w1/77.AAAAAAAA", two.token]
    words: list[str | int] = ["fail", "no", "", ""] if script == "give_back" else []
    connection = queue._connection
    with connection.lanes.new_call() as call:
        words = [*([] if script == "renew" else call), *words, 1, "w1", len(tokens), *tokens]
        reply = await connection.run(script, ["cq:{q}:main"], words)
    word = {"done": "done", "give_back": "requeued", "renew": "renewed"}[script]
    said = reply[1].decode().split()[-5:]
    assert said == [word, word, "lost", "lost", "lost"]
    stats = await queue.stats()
    assert stats.get("done", 0) == (2 if script == "done" else 0)
    assert stats.get("fails", 0) == (2 if script == "give_back" else 0)
    assert sum((await queue.lengths()).values()) == (1 if script == "done" else 3)


@pytest.mark.parametrize("script", ["done", "done_claim"])
async def test_an_item_that_leaves_busy_without_a_lease_is_done(
    server: Server, queue: ReliableQueue, script: str
) -> None:
    """Their leases were lost, but the items were still in busy, so the claims were still held."""
    one, two, three = await enqueued_and_claimed(queue, "abc")
    server.call("ZREM", "cq:{q}:leases", one.token, two.token)
    tokens = ["w1/1.AAAAAAAA", one.token, two.token, one.token, three.token]
    if script == "done":
        outcomes = await call_script(queue, "done", 1, "w1", len(tokens), *tokens)
    else:
        known = server.call("HGET", "cq:{q}:stats", "incarnation")
        words = ("w1", 1, "nonce-12", known, 1, "w1", len(tokens), *tokens)
        outcomes = await call_script(queue, "done_claim", *words)
    assert outcomes[1].decode().split()[-5:] == ["lost", "done", "done", "lost", "done"]
    assert await lengths(queue) == Lengths()
    assert server.call("HLEN", "cq:{q}:busy:w1") == 0
    stats = await queue.stats()
    assert (stats["done"], stats["lost"]) == (3, 2)


async def test_after_a_loss_of_leases_busy_is_counted_right_from_the_next_claim(
    server: Server, queue: ReliableQueue
) -> None:
    (one,) = await enqueued_and_claimed(queue, "a")
    await queue.enqueue("b")
    server.call("DEL", "cq:{q}:leases")
    known = server.call("HGET", "cq:{q}:stats", "incarnation")
    await call_script(queue, "done_claim", "w1", 1, "nonce-12", known, 1, "w1", 1, one.token)
    assert await lengths(queue) == Lengths(busy=1)
